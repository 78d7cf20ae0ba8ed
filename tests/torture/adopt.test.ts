/** Threats: a killed daemon, a killed runner or shell and leaks over many sessions. Sandboxes outlive the daemon, and their own death is noticed. */
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { ExecStream } from "@sandkasten/daemon";
import { warmUp } from "../support/oracles/around-case.ts";
import { HostSnapshot } from "../support/oracles/no-leak.ts";
import { rounds } from "../support/rounds.ts";
import { runtimeUnderTest } from "../support/runtime-under-test.ts";
import { MIB, newExecId, SandboxMachine, testSandbox } from "../support/sandbox-machine.ts";
import type { Abandoned } from "./abandoned-daemon.ts";
import { withAttack } from "./attacks/install-attack.ts";
import { outcomeOf, readAll } from "./attacks/outcome.ts";
import { digestOfEmitted, emittedBytes } from "./emitted-bytes.ts";

const BYTES = 12 * MIB;
const CYCLES = rounds({ slice: 20, torture: 1_000 });

let machine: SandboxMachine;
beforeAll(async () => {
  machine = await SandboxMachine.start({ runtime: runtimeUnderTest() });
  await warmUp(machine);
});
afterAll(() => machine[Symbol.asyncDispose]());

/** Lets another process create a sandbox and kills it, without warning, while its commands run. */
async function abandonSandbox(): Promise<Abandoned> {
  return await withAttack("emit", async (emit) => {
    const script = fileURLToPath(new URL("abandoned-daemon.ts", import.meta.url));
    const args = [machine.dataDir, runtimeUnderTest(), emit, String(BYTES)];
    const daemon = spawn(process.execPath, [script, ...args], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    try {
      for await (const line of createInterface({ input: daemon.stdout }))
        return JSON.parse(line) as Abandoned;
      throw new Error("the process that makes the sandbox ended before it had made one");
    } finally {
      const ended = once(daemon, "exit");
      if (daemon.exitCode === null) {
        daemon.kill("SIGKILL");
        await ended;
      }
    }
  });
}

async function digestOf(exec: ExecStream): Promise<string> {
  const hash = createHash("sha256");
  for await (const { bytes } of exec) hash.update(bytes);
  return hash.digest("hex");
}

/** The host pid of a sandbox's first process, from the launcher's record. */
async function firstPid(id: string): Promise<number> {
  const path = join(machine.dataDir, "sandboxes", id, "sandbox.json");
  const { pid } = JSON.parse(await readFile(path, "utf8")) as { pid: number };
  return pid;
}

test("a sandbox whose daemon was killed is adopted with its shell, its files and its running commands", async () => {
  const before = await HostSnapshot.take(machine);
  const { id, unread, halfRead, halfReadOffset } = await abandonSandbox();
  expect(await machine.backend.list()).toEqual([{ id, state: "running" }]);
  expect(await machine.backend.adopt(id)).toMatchObject({ id, profile: "restricted" });
  const channel = await machine.backend.open(id);

  const running = await channel.listExecs();
  expect(running.filter(({ state }) => state === "running").map(({ execId }) => execId)).toEqual(
    expect.arrayContaining([unread, halfRead]),
  );
  const fromStart = await channel.attach(unread, { offset: 0 });
  expect(await digestOf(fromStart)).toBe(digestOfEmitted(BYTES, 4242));
  const end = { reason: "exited", exitCode: 0, stdoutBytes: BYTES, droppedBytes: 0 };
  expect(await fromStart.ended).toMatchObject(end);
  // The dead daemon had consumed a part of this one, which is no longer stored.
  expect(halfReadOffset).toBeGreaterThan(0);
  const fromOffset = await channel.attach(halfRead, { offset: halfReadOffset });
  const rest = createHash("sha256").update(emittedBytes(BYTES, 2424).subarray(halfReadOffset));
  expect(await digestOf(fromOffset)).toBe(rest.digest("hex"));
  expect(await fromOffset.ended).toMatchObject(end);

  const { sh } = testSandbox(id, channel);
  expect(await sh(`pwd; echo "$KEPT"; greet you; echo $status; jobs -r | wc -l`)).toMatchObject({
    stdout: "/workspace/notes\nstill here\nhello you\ndone\n1\n",
    shellRestarted: false,
  });
  expect(String(await readAll(channel, "notes/kept.txt"))).toBe("kept");
  await machine.destroy(id);
  await before.expectUnchanged();
});

test(`${CYCLES} sandboxes that are created and destroyed, 5 at a time, leave nothing`, async () => {
  const before = await HostSnapshot.take(machine);
  let left = CYCLES;
  const lane = async (): Promise<void> => {
    while (left-- > 0) {
      const { id, sh } = await machine.sandbox();
      expect(await sh("echo $((6*7))")).toMatchObject({ stdout: "42\n" });
      await machine.destroy(id);
    }
  };
  await Promise.all(Array.from({ length: 5 }, lane));
  expect(await machine.backend.list()).toEqual([]);
  await before.expectUnchanged();
});

test("a sandbox whose first process is killed is reported as dead everywhere and can be destroyed", async () => {
  const before = await HostSnapshot.take(machine);
  const { id, channel } = await machine.sandbox();
  const running = await channel.exec(
    { kind: "process", argv: ["sh", "-c", "echo begun; sleep 1000"] },
    { execId: newExecId() },
  );
  const chunks = running[Symbol.asyncIterator]();
  expect(Buffer.from((await chunks.next()).value!.bytes).toString()).toBe("begun\n");
  process.kill(await firstPid(id), "SIGKILL");
  expect(await chunks.next()).toMatchObject({ done: true });
  const end = await running.ended;
  expect(end).toMatchObject({ reason: "sandbox_gone", stdoutBytes: 6 });
  expect(end.exitCode).toBeUndefined();
  expect(await outcomeOf(channel.ping())).toBe("SANDBOX_UNREACHABLE");
  expect(await outcomeOf(channel.stat("/workspace"))).toBe("SANDBOX_UNREACHABLE");
  expect(await outcomeOf(machine.backend.adopt(id))).toBe("SANDBOX_UNREACHABLE");
  expect(await outcomeOf(machine.backend.open(id))).toBe("SANDBOX_UNREACHABLE");
  expect(await machine.backend.list()).toEqual([{ id, state: "dead" }]);
  await machine.destroy(id);
  expect(await outcomeOf(machine.backend.open(id))).toBe("SANDBOX_NOT_FOUND");
  await before.expectUnchanged();
});
