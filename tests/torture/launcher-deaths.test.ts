/** Threats: leaked secrets and descriptors and interrupted creation. The launcher dies beside the daemon, or its daemon dies. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { access } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { SandboxError } from "@sandkasten/protocol";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Launcher } from "../../packages/daemon/src/backends/oci/launcher.ts";
import { isGone, launcherServersOf } from "../support/launcher-servers.ts";
import { warmUp } from "../support/oracles/around-case.ts";
import { HostSnapshot } from "../support/oracles/no-leak.ts";
import { rounds, runRandom } from "../support/rounds.ts";
import { runtimeUnderTest } from "../support/runtime-under-test.ts";
import { newSandboxId, SandboxMachine } from "../support/sandbox-machine.ts";

const PROGRAM = fileURLToPath(new URL("../../native/bin/launcher", import.meta.url));
const USER = fileURLToPath(new URL("launcher-user.ts", import.meta.url));
const POLL_MS = 2;
const MAX_STRIKES = 20;

const launcher = new Launcher(PROGRAM);
let machine: SandboxMachine;
beforeAll(async () => {
  machine = await SandboxMachine.start({ runtime: runtimeUnderTest() });
  await warmUp(machine);
});
afterAll(() => machine[Symbol.asyncDispose]());

async function theServer(): Promise<number> {
  const [server, ...others] = await launcherServersOf(process.pid);
  expect(others).toEqual([]);
  if (server === undefined) throw new Error("no launcher serves this process");
  return server;
}

async function until(isSo: () => Promise<boolean>): Promise<void> {
  while (!(await isSo())) await sleep(POLL_MS);
}

/** The error that tells a client to repeat the request. */
function describeError(error: unknown): string {
  if (!(error instanceof SandboxError)) return String(error);
  return `${error.code}${error.retryable ? " (retryable)" : ""}: ${error.message}`;
}

/** Kills the launcher when a part of the sandbox exists. Returns how the create ended. */
async function createAndStrike(part: string): Promise<string> {
  const id = newSandboxId();
  const seen = join(machine.dataDir, "sandboxes", id, part === "state_dir" ? "" : part);
  await launcher.steps();
  const server = await theServer();
  const created = machine.sandbox({ id }).then(
    () => "made",
    (error: unknown) => describeError(error),
  );
  await until(() =>
    access(seen).then(
      () => true,
      () => false,
    ),
  );
  process.kill(server, "SIGKILL");
  const end = await created;
  if (end === "made") await machine.destroy(id);
  return end;
}

test("concurrent creates all use one launcher", async () => {
  const before = await HostSnapshot.take(machine);
  const made = await Promise.all(Array.from({ length: 6 }, () => machine.sandbox()));
  await theServer();
  await Promise.all(made.map(({ id }) => machine.destroy(id)));
  await before.expectUnchanged();
});

test("a launcher that is killed between requests is started again at the next one", async () => {
  await launcher.steps();
  const killed = await theServer();
  process.kill(killed, "SIGKILL");
  await until(() => isGone(killed));
  const { id, sh } = await machine.sandbox();
  expect(await sh("echo made")).toMatchObject({ stdout: "made\n" });
  expect(await theServer()).not.toBe(killed);
  await machine.destroy(id);
});

test.each(["state_dir", "disk.img", "runner.sock"])(
  "a create whose launcher is killed once %s exists fails and leaves nothing",
  async (name) => {
    const before = await HostSnapshot.take(machine);
    let created = await createAndStrike(name);
    // On a busy machine, the kill may come after the work is done; then try again.
    for (let strikes = 1; created === "made" && strikes < MAX_STRIKES; strikes++)
      created = await createAndStrike(name);
    expect(created).toContain(
      "BACKEND_BUSY (retryable): launcher create ended with SIGKILL without an answer",
    );
    await before.expectUnchanged();
  },
);

/** Kills the launcher this long after a destroy was requested. Returns how that ended. */
async function destroyAndStrike(id: string, afterMs: number): Promise<string> {
  const server = await theServer();
  const destroyed = machine.backend.destroy(id).then(
    () => "done",
    (error: unknown) => describeError(error),
  );
  await sleep(afterMs);
  process.kill(server, "SIGKILL");
  await until(() => isGone(server));
  return await destroyed;
}

test("a destroy whose launcher is killed fails and can be repeated", async () => {
  const before = await HostSnapshot.take(machine);
  const random = runRandom("launcher deaths in destroy");
  const ends: string[] = [];
  for (let strike = 0; strike < rounds({ slice: 8, torture: 100 }); strike++) {
    const { id } = await machine.sandbox();
    // The first comes before the launcher can answer; a destroy takes about 20 ms.
    const end = await destroyAndStrike(id, strike === 0 ? 0 : random() * 25);
    if (end !== "done")
      expect(end).toMatch(
        /^BACKEND_BUSY \(retryable\): launcher destroy ended with SIGKILL without an answer/u,
      );
    ends.push(end);
    await machine.destroy(id);
    await before.expectUnchanged();
  }
  expect(ends.filter((end) => end !== "done")).not.toEqual([]);
});

test.each([
  ["returns", "return", 0, null],
  ["exits", "exit", 0, null],
  ["throws", "throw", 1, null],
  ["is killed", "stay", null, "SIGKILL"],
  ["is terminated", "stay", null, "SIGTERM"],
] as const)("the launcher ends with a process that %s", async (_, end, exitCode, signal) => {
  const user = spawn(process.execPath, [USER, PROGRAM, end], {
    stdio: ["ignore", "pipe", "ignore"],
  });
  const exited = once(user, "exit");
  const [text] = (await once(user.stdout, "data")) as [Buffer];
  const servers = JSON.parse(String(text)) as number[];
  expect(servers).toHaveLength(1);
  if (signal !== null) user.kill(signal);
  expect(await exited).toEqual([exitCode, signal]);
  await until(async () => (await Promise.all(servers.map(isGone))).every(Boolean));
});

test("a program that is not a launcher is an error of the first request and of the next", async () => {
  const missing = new Launcher("/no/such/launcher");
  await expect(missing.steps()).rejects.toThrow("cannot run the launcher /no/such/launcher");
  await expect(missing.steps()).rejects.toThrow("cannot run the launcher /no/such/launcher");
  await expect(new Launcher("/bin/false").steps()).rejects.toThrow(
    "ended with 1 without an answer",
  );
});
