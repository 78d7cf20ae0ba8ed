/** Output stays byte-exact however often the daemon's connection to the runner is lost. */
import { createHash } from "node:crypto";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import type { ExecStream, OutputChunk } from "@sandkasten/daemon";
import { RunnerChannel } from "../../packages/daemon/src/channel/runner-channel.ts";
import { connectUnixSocket } from "../../packages/daemon/src/channel/unix-socket.ts";
import { aroundCase, warmUp } from "../support/oracles/around-case.ts";
import { rounds, runRandom } from "../support/rounds.ts";
import { runtimeUnderTest } from "../support/runtime-under-test.ts";
import { MIB, newExecId, SandboxMachine } from "../support/sandbox-machine.ts";
import { installAttack } from "./attacks/install-attack.ts";
import { CuttingProxy } from "./cutting-proxy.ts";
import { digestOfEmitted } from "./emitted-bytes.ts";

const CUTS = rounds({ slice: 200, torture: 1_000 });

let machine: SandboxMachine;
beforeAll(async () => {
  machine = await SandboxMachine.start({ runtime: runtimeUnderTest() });
  await warmUp(machine);
});
afterAll(() => machine[Symbol.asyncDispose]());
// The tested channel is the same for all runtimes; only its transport differs on gVisor.
beforeEach((context) => {
  if (runtimeUnderTest() === "runsc")
    context.skip("a runner on gVisor has no socket on the host that a proxy could stand before");
});

/** Runs `emit` behind a proxy that cuts, and returns the result. */
async function emitThroughCuts(
  kind: "process" | "shell",
  numbers: readonly number[],
): Promise<{ digests: Record<OutputChunk["stream"], string>; end: Awaited<ExecStream["ended"]> }> {
  return await aroundCase(machine, async ({ sandbox }) => {
    const { id, channel: direct } = await sandbox();
    const emit = await installAttack(direct, "emit");
    const total = (numbers[0] ?? 0) + (numbers[2] ?? 0);
    await using proxy = await CuttingProxy.start(
      join(machine.dataDir, "sandboxes", id, "runner.sock"),
      // All cuts then come before the end of the output, which is sent at least once.
      { cuts: CUTS, meanBytes: total / (CUTS * 1.3), random: runRandom(`cuts of a ${kind}`) },
    );
    const channel = new RunnerChannel({
      connect: (signal) => connectUnixSocket(proxy.path, signal),
    });
    try {
      const argv = [emit, ...numbers.map(String)];
      const exec = await channel.exec(
        kind === "process" ? { kind, argv } : { kind, text: argv.join(" ") },
        { execId: newExecId() },
      );
      const hashes = { stdout: createHash("sha256"), stderr: createHash("sha256") };
      let offset = 0;
      for await (const chunk of exec) {
        expect(chunk.offset).toBe(offset);
        offset += chunk.bytes.length;
        hashes[chunk.stream].update(chunk.bytes);
      }
      const end = await exec.ended;
      expect(proxy.cuts).toBe(CUTS);
      // Afterwards the same channel works normally.
      expect((await channel.ping()).tracking).toBeDefined();
      const digests = {
        stdout: hashes.stdout.digest("hex"),
        stderr: hashes.stderr.digest("hex"),
      };
      return { digests, end };
    } finally {
      channel.close();
    }
  });
}

test(`64 MiB of a process's output survive ${CUTS} lost connections byte for byte`, async () => {
  const bytes = 64 * MIB;
  const { digests, end } = await emitThroughCuts("process", [bytes, 12_345]);
  expect(digests.stdout).toBe(digestOfEmitted(bytes, 12_345));
  expect(end).toMatchObject({
    reason: "exited",
    exitCode: 0,
    stdoutBytes: bytes,
    stderrBytes: 0,
    droppedBytes: 0,
  });
});

test(`both streams of a shell command survive ${CUTS} lost connections byte for byte`, async () => {
  const [out, err] = [24 * MIB + 1, 16 * MIB + 7];
  const { digests, end } = await emitThroughCuts("shell", [out, 777, err, 999]);
  expect(digests.stdout).toBe(digestOfEmitted(out, 777));
  expect(digests.stderr).toBe(digestOfEmitted(err, 999));
  expect(end).toMatchObject({
    reason: "exited",
    exitCode: 0,
    stdoutBytes: out,
    stderrBytes: err,
    droppedBytes: 0,
  });
});
