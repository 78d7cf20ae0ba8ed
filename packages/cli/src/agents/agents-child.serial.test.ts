/** `sandkasten start` with its agent service: two processes that start and end together. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { loadConfig, sweep } from "@sandkasten/daemon";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { freePort } from "../../../../tests/support/free-port.ts";
import { agentsPid, isAlive } from "../testing/agents-process.ts";

const PROGRAM = fileURLToPath(new URL("../../bin/sandkasten", import.meta.url));

let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "sandkasten-start-"));
  await mkdir(join(directory, "agents"));
  await writeFile(join(directory, "agents", "echo.prompt"), "---\nmodel: scripted/x\n---\nHi\n");
});
afterAll(async () => {
  const env = { SANDKASTEN_DATA_DIR: join(directory, "data") };
  await sweep(await loadConfig({ env, cwd: "/", home: "/nonexistent", isRoot: true }));
  await rm(directory, { recursive: true, force: true });
});

const started: ChildProcess[] = [];
afterEach(async () => {
  for (const child of started.splice(0)) {
    if (child.exitCode !== null || child.signalCode !== null) continue;
    const exited = once(child, "exit");
    child.kill("SIGKILL");
    await exited;
  }
});

interface Ready {
  readonly url: string;
  readonly agentsUrl?: string;
}

/** Starts both and waits until they are ready. */
async function start(...more: readonly string[]) {
  const data = ["--data-dir", join(directory, "data"), "--set", "shutdown=destroy"];
  const agents = ["--agents-dir", directory, ...more];
  const child = spawn(PROGRAM, ["start", "--json", "--listen", "127.0.0.1:0", ...data, ...agents], {
    cwd: directory,
    stdio: ["ignore", "pipe", "pipe"],
  });
  started.push(child);
  let stderr = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  for await (const line of createInterface(child.stdout)) {
    const event = JSON.parse(line) as { readonly type: string } & Ready;
    if (event.type === "ready") return { child, ready: event, stderr: () => stderr };
  }
  throw new Error(`it did not start: ${stderr}`);
}

describe("sandkasten start", () => {
  it("ends the agent service if it is killed", async () => {
    const { child, ready } = await start("--agents-listen", "127.0.0.1:0");
    const agents = await fetch(`${ready.agentsUrl}/v1/agents`);
    expect(await agents.json()).toMatchObject({ agents: [{ name: "echo" }] });
    const pid = await agentsPid(child);
    child.kill("SIGKILL");
    await expect.poll(() => isAlive(pid)).toBe(false);
  });

  it("continues if the agent service ends, and says so", async () => {
    const { child, ready, stderr } = await start("--agents-listen", "127.0.0.1:0");
    process.kill(await agentsPid(child), "SIGKILL");
    await expect
      .poll(stderr, { timeout: 60_000 })
      .toMatch(/^! The agent service has ended: .*SIGKILL/m);
    expect((await fetch(`${ready.url}/healthz`)).status).toBe(200);
  });

  it("says that the port of the agent service is in use, and still starts the daemon", async () => {
    const port = await freePort();
    const other = spawn(process.execPath, [
      "-e",
      `require("net").createServer().listen(${port}, "127.0.0.1", () => console.log("up"))`,
    ]);
    started.push(other);
    await once(other.stdout, "data");
    const { ready, stderr } = await start("--agents-listen", `127.0.0.1:${port}`);
    expect(stderr()).toMatch(
      new RegExp(
        `^! The agent service did not start: The address 127\\.0\\.0\\.1:${port} is in use\\. `,
        "m",
      ),
    );
    expect(ready.agentsUrl).toBeUndefined();
    expect((await fetch(`${ready.url}/healthz`)).status).toBe(200);
  });
});
