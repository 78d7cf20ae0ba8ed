import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { runTestCli } from "./testing/test-host.ts";

let scratch: string;
let server: Server;
let port: number;
let keys: (string | undefined)[];
beforeEach(async () => {
  scratch = await mkdtemp(join(tmpdir(), "sandkasten-cli-"));
  keys = [];
  server = createServer((request, response) => {
    keys.push(request.headers.authorization);
    response.setHeader("content-type", "application/json");
    response.end('{"version":"1.2.3","backend":"fake","node":"v24"}');
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  ({ port } = server.address() as AddressInfo);
});
afterEach(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  await rm(scratch, { recursive: true, force: true });
});

const KEY = "sk-sandbox-made-by-the-daemon";

function local(): Readonly<Record<string, string>> {
  return { SANDKASTEN_DATA_DIR: scratch, SANDKASTEN_LISTEN: `127.0.0.1:${port}`, HOME: scratch };
}

/** The port was in use until now, so no other process uses it. */
async function withoutDaemon(): Promise<Readonly<Record<string, string>>> {
  await new Promise((resolve) => server.close(resolve));
  return { SANDKASTEN_URL: `http://127.0.0.1:${port}`, SANDKASTEN_API_KEY: "key-of-nobody" };
}

describe("the daemon of a command", () => {
  it("is the local one, with the key that it generated", async () => {
    await writeFile(join(scratch, "api-key"), `${KEY}\n`, { mode: 0o600 });
    const { stdout, code } = await runTestCli(["version"], { env: local(), cwd: scratch });
    expect(stdout).toContain("daemon\t1.2.3\tfake on Node v24");
    expect(code).toBe(0);
    expect(keys).toEqual([`Bearer ${KEY}`]);
  });

  it("is found with the configuration file and the data directory of flags", async () => {
    const file = join(scratch, "other.yaml");
    await writeFile(file, `listen: "127.0.0.1:${port}"\n`);
    await writeFile(join(scratch, "api-key"), `${KEY}\n`, { mode: 0o600 });
    const args = ["version", "--config", file, "--data-dir", scratch];
    await runTestCli(args, { env: { HOME: scratch }, cwd: scratch });
    expect(keys).toEqual([`Bearer ${KEY}`]);
  });

  it("is the one in variables, but flags take precedence", async () => {
    const env = { SANDKASTEN_URL: "http://127.0.0.1:1", SANDKASTEN_API_KEY: "from-variable" };
    await runTestCli(["version", "--url", `http://127.0.0.1:${port}`], { env });
    await runTestCli(["--url", `http://127.0.0.1:${port}`, "--api-key", "from-flag", "version"], {
      env,
    });
    expect(keys).toEqual(["Bearer from-variable", "Bearer from-flag"]);
  });

  it("never gets the local key if its address was given", async () => {
    await writeFile(join(scratch, "api-key"), `${KEY}\n`, { mode: 0o600 });
    const args = ["version", "--url", `http://127.0.0.1:${port}`];
    await runTestCli(args, { env: local(), cwd: scratch });
    expect(keys).toEqual([undefined]);
  });

  it("gets no key if none was generated, and asking generates none", async () => {
    await runTestCli(["version"], { env: local(), cwd: scratch });
    expect(keys).toEqual([undefined]);
    expect(await readdir(scratch)).toEqual([]);
  });

  it("must have an HTTP address", async () => {
    const { code, stderr } = await runTestCli(["ls", "--url", "localhost:8080"]);
    expect(stderr).toContain("is not a daemon's address");
    expect(code).toBe(2);
  });

  it("is reported as unreachable, with how to start one", async () => {
    const env = await withoutDaemon();
    const { code, stderr, stdout } = await runTestCli(["ls"], { env });
    expect(stderr.trimEnd().split("\n")).toEqual([
      `✗ No daemon answers at 127.0.0.1:${port}.`,
      expect.stringContaining("Start a daemon with `sandkasten start`"),
    ]);
    expect([code, stdout]).toEqual([1, ""]);
  });

  it("is reported as unreachable in JSON with --json", async () => {
    const env = await withoutDaemon();
    const { code, stderr } = await runTestCli(["ls", "--json"], { env });
    expect(JSON.parse(stderr)).toEqual({
      error: {
        code: "CONNECTION_FAILED",
        message: `No daemon answers at 127.0.0.1:${port}.`,
        hint: expect.stringContaining("sandkasten start"),
      },
    });
    expect(code).toBe(1);
  });
});
