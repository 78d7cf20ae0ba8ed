/**
 * Signals that reach a shell at any moment of a command: before it, while it starts programs, and
 * at its end.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { importSmallImage } from "../support/images.ts";
import { rounds, runRandom } from "../support/rounds.ts";
import { runtimeUnderTest } from "../support/runtime-under-test.ts";
import { newExecId, SandboxMachine } from "../support/sandbox-machine.ts";

const SIGNALS = [15, 9, 2, 1, 3];
const COMMANDS = [
  "sleep 1000; STATE=rest; echo rest",
  "while :; do :; done; STATE=rest",
  "sleep 1000 | cat; STATE=rest",
  "for x in 1 2 3; do sleep 0.01 & done; sleep 1000; STATE=rest; echo rest",
  "(sleep 1000); STATE=rest",
];
/** Longer than the runner waits for a shell that does not end its command. */
const PATIENCE_MS = 4_500;
/** Most races happen in the first milliseconds. */
const SOON_MS = 4;
const LATE_MS = 60;

describe.each(["bash", "dash", "busybox"] as const)("a command of %s", (shell) => {
  test("ends by a signal at any moment, without its rest, and the shell continues", async () => {
    await using machine = await SandboxMachine.start({ runtime: runtimeUnderTest() });
    const image = shell === "bash" ? "host" : await importSmallImage(machine.embedded, shell);
    const { sh, channel } = await machine.sandbox({ image });
    const random = runRandom(`signals ${shell}`);
    for (let round = 0; round < rounds({ slice: 30, torture: 600 }); round += 1) {
      const signal = SIGNALS[round % SIGNALS.length] ?? 0;
      const text = COMMANDS[Math.floor(random() * COMMANDS.length)] ?? "";
      const delayMs = random() * (random() < 0.5 ? SOON_MS : LATE_MS);
      await sh("STATE=before");
      const execId = newExecId();
      const stream = await channel.exec({ kind: "shell", text }, { execId });
      await sleep(delayMs);
      await channel.signal(execId, signal);
      let output = "";
      for await (const { bytes } of stream) output += Buffer.from(bytes).toString();
      const { reason, exitCode, shellRestarted } = await stream.ended;
      const after = await sh("echo $STATE");
      const saidRest = output.includes("rest");
      const how = { round, signal, text, delayMs };
      const ended = { reason, exitCode, shellRestarted, saidRest, after: after.stdout };
      expect({ ...how, ...ended }).toEqual({
        ...how,
        reason: "killed",
        exitCode: 128 + signal,
        shellRestarted: false,
        saidRest: false,
        after: "before\n",
      });
    }
  });

  test("continues after an interrupt that it handles", async () => {
    await using machine = await SandboxMachine.start({ runtime: runtimeUnderTest() });
    const image = shell === "bash" ? "host" : await importSmallImage(machine.embedded, shell);
    const { sh, channel } = await machine.sandbox({ image });
    const execId = newExecId();
    const text =
      "trap 'echo caught' INT; echo ready; while ! read line; do :; done; echo got $line";
    const stream = await channel.exec({ kind: "shell", text }, { execId, stdin: true });
    let output = "";
    let written: Promise<void> | undefined;
    for await (const { bytes } of stream) {
      output += Buffer.from(bytes).toString();
      if (output === "ready\n") {
        await channel.signal(execId, 2);
        written = sleep(PATIENCE_MS).then(() => stream.writeStdin(Buffer.from("a line\n")));
      }
    }
    await written;
    expect(output).toMatch(/^ready\n(?:caught\n)+got a line\n$/u);
    expect(await stream.ended).toMatchObject({ shellRestarted: false });
    expect((await sh("trap - INT; echo on")).shellRestarted).toBe(false);
  });
});
