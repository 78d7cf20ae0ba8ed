/** A real Postgres for the suite, with a socket in a private directory and a forwarded loopback port. */
import { execFile, spawn } from "node:child_process";
import { chown, mkdtemp, readdir, rm } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { promisify } from "node:util";
import { serveTcp } from "./world.ts";
import type { Served } from "./world.ts";

const PROGRAMS = "/usr/lib/postgresql";
const run = promisify(execFile);

/** Where Debian installs the programs of the newest version. */
async function postgresPrograms(): Promise<string> {
  const newest = (await readdir(PROGRAMS)).toSorted((one, other) => Number(one) - Number(other));
  return join(PROGRAMS, newest.at(-1) ?? "", "bin");
}

export async function startPostgres(): Promise<Served> {
  const programs = await postgresPrograms();
  // The path of a socket must be short.
  const directory = await mkdtemp("/tmp/sk-net-");
  const remove = (): Promise<void> => rm(directory, { recursive: true, force: true });
  // Postgres refuses to run as root.
  const nobody = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {};
  try {
    if (nobody.uid !== undefined) await chown(directory, nobody.uid, nobody.gid);
    const options = { ...nobody, cwd: directory };
    const data = join(directory, "data");
    const init = ["-D", data, "-U", "tester", "-A", "trust", "--locale=C", "--no-sync"];
    await run(join(programs, "initdb"), init, options);
    const settings = ["listen_addresses=", "fsync=off"].flatMap((setting) => ["-c", setting]);
    const child = spawn(join(programs, "postgres"), ["-D", data, "-k", directory, ...settings], {
      ...options,
      stdio: ["ignore", "ignore", "pipe"],
    });
    const ended = new Promise<void>((resolve) => child.once("close", () => resolve()));
    await new Promise<void>((resolve, reject) => {
      let said = "";
      child.stderr.on("data", (chunk: Buffer) => {
        said += String(chunk);
        if (said.includes("ready to accept connections")) resolve();
      });
      void ended.then(() => reject(new Error(`Postgres did not start: ${said}`)));
    });
    const door = await serveTcp((socket) => {
      const inside = connect(join(directory, ".s.PGSQL.5432"));
      inside.on("error", () => socket.destroy());
      socket.on("error", () => inside.destroy());
      socket.pipe(inside).pipe(socket);
    });
    const close = async (): Promise<void> => {
      await door.close();
      child.kill("SIGQUIT");
      await ended;
      await remove();
    };
    return { ...door, close };
  } catch (error) {
    await remove();
    throw error;
  }
}
