/** A private Postgres cluster: private directory and socket, no network, removed afterwards. */
import { execFile, spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import { chown, mkdtemp, readFile, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";

const START_TIMEOUT_MS = 60_000;
/** Debian keeps the programs of each version here, outside of PATH. */
const DEBIAN_PROGRAMS = "/usr/lib/postgresql";
const execute = promisify(execFile);

export class PostgresCluster implements AsyncDisposable {
  readonly #directory: string;
  readonly #child: ChildProcess;

  private constructor(directory: string, child: ChildProcess) {
    this.#directory = directory;
    this.#child = child;
  }

  /** Postgres refuses to run as root, so another user runs it. Settings are as in `fsync=off`. */
  static async start(settings: readonly string[] = ["fsync=off"]): Promise<PostgresCluster> {
    // A socket's path must be short, and its directory accessible to the user who runs it.
    const directory = await mkdtemp("/tmp/sk-pg-");
    try {
      const user = await unprivilegedUser();
      if (user !== undefined) await chown(directory, user.uid, user.gid);
      const programs = await programsDirectory();
      const data = join(directory, "data");
      await execute(
        join(programs, "initdb"),
        ["-D", data, "-U", "sandkasten", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"],
        { ...user, cwd: directory },
      );
      const log = openSync(join(directory, "log"), "a");
      const child = spawn(
        join(programs, "postgres"),
        [
          "-D",
          data,
          "-k",
          directory,
          "-c",
          "listen_addresses=",
          ...settings.flatMap((set) => ["-c", set]),
        ],
        { ...user, cwd: directory, stdio: ["ignore", log, log] },
      );
      closeSync(log);
      const cluster = new PostgresCluster(directory, child);
      await cluster.#ready(join(programs, "pg_isready"));
      return cluster;
    } catch (error) {
      await rm(directory, { recursive: true, force: true });
      throw error;
    }
  }

  /** The URL of the default database. */
  get url(): string {
    return this.#urlOf("postgres");
  }

  /** Creates a new, empty database. */
  async createDatabase(): Promise<string> {
    const name = `test_${randomBytes(6).toString("hex")}`;
    await execute("psql", [this.url, "-qc", `CREATE DATABASE ${name}`]);
    return this.#urlOf(name);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode === null && this.#child.signalCode === null) {
      const ended = once(this.#child, "exit");
      this.#child.kill("SIGQUIT"); // At once: its data is no longer needed.
      await ended;
    }
    await rm(this.#directory, { recursive: true, force: true });
  }

  #urlOf(database: string): string {
    return `postgresql://sandkasten@/${database}?host=${encodeURIComponent(this.#directory)}`;
  }

  async #ready(program: string): Promise<void> {
    const deadline = Date.now() + START_TIMEOUT_MS;
    for (;;) {
      const isReady = await execute(program, ["-q", "-h", this.#directory]).then(
        () => true,
        () => false,
      );
      if (isReady) return;
      if (this.#child.exitCode !== null || Date.now() > deadline) {
        const log = await readFile(join(this.#directory, "log"), "utf8");
        this.#child.kill("SIGQUIT");
        throw new Error(`Postgres did not start: ${log}`);
      }
      await sleep(50);
    }
  }
}

/** The user that runs it: `nobody` if the tests run as root, otherwise the tests' user. */
async function unprivilegedUser(): Promise<
  { readonly uid: number; readonly gid: number } | undefined
> {
  if (process.getuid?.() !== 0) return undefined;
  const passwd = await readFile("/etc/passwd", "utf8");
  const fields = ["postgres", "nobody"]
    .map((name) => passwd.split("\n").find((line) => line.startsWith(`${name}:`)))
    .find((line) => line !== undefined)
    ?.split(":");
  return { uid: Number(fields?.[2] ?? 65_534), gid: Number(fields?.[3] ?? 65_534) };
}

async function programsDirectory(): Promise<string> {
  const versions = await readdir(DEBIAN_PROGRAMS).catch(() => []);
  const newest = versions.toSorted((a, b) => Number(b) - Number(a))[0];
  if (newest === undefined)
    throw new Error("Postgres is not installed; `npm run setup -- --tests` installs it");
  return join(DEBIAN_PROGRAMS, newest, "bin");
}
