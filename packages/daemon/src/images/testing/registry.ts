/** A real registry on a free loopback port. */
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { freePort } from "../../../../../tests/support/free-port.ts";

const execFileAsync = promisify(execFile);
const STARTUP_TRIES = 200;

export interface Registry extends AsyncDisposable {
  /** `127.0.0.1:port`. */
  readonly address: string;
  /** Copies an OCI archive to `address/name`. */
  push(archive: string, name: string, format?: "oci" | "v2s2"): Promise<void>;
  /** How many requests for blobs it has answered. */
  blobRequests(): number;
}

/** @param user - `name:hash` (bcrypt) of the only user with access; when absent, access is open. */
export async function startRegistry(user?: string): Promise<Registry> {
  const directory = await mkdtemp(join(tmpdir(), "sandkasten-registry-"));
  const port = await freePort();
  const address = `127.0.0.1:${port}`;
  const config = join(directory, "config.yml");
  const users = join(directory, "users");
  if (user !== undefined) await writeFile(users, `${user}\n`);
  await writeFile(
    config,
    `version: 0.1
log: {level: info}
storage: {filesystem: {rootdirectory: ${join(directory, "storage")}}}
http: {addr: "${address}"}
${user === undefined ? "" : `auth: {htpasswd: {realm: test, path: ${users}}}`}
`,
  );
  const child = spawn("/usr/bin/docker-registry", ["serve", config], {
    stdio: ["ignore", "pipe", "pipe"],
    env: {},
  });
  const exited = once(child, "exit");
  let log = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (text: string) => {
      log += text;
    });
  }
  const stop = async (): Promise<void> => {
    child.kill("SIGKILL");
    await exited;
    await rm(directory, { recursive: true, force: true });
  };
  try {
    await answering(`http://${address}/v2/`);
  } catch (error) {
    await stop();
    throw new Error(`The registry did not start: ${log}`, { cause: error });
  }
  return {
    address,
    push: async (archive, name, format = "oci") => {
      await execFileAsync("/usr/bin/skopeo", [
        "copy",
        "--quiet",
        "--dest-tls-verify=false",
        `--format=${format}`,
        `oci-archive:${archive}`,
        `docker://${address}/${name}`,
      ]);
    },
    blobRequests: () =>
      log.split("\n").filter((line) => /"GET \/v2\/[^"]*\/blobs\//.test(line)).length,
    [Symbol.asyncDispose]: stop,
  };
}

async function answering(url: string): Promise<void> {
  for (let attempt = 0; ; attempt += 1) {
    try {
      await fetch(url);
      return;
    } catch (error) {
      if (attempt === STARTUP_TRIES) throw error;
      await sleep(50);
    }
  }
}
