/** Commands of the stateful shell that are made to end, by a signal, a cancellation or a timeout. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { importSmallImage } from "../support/images.ts";
import { newExecId, SandboxMachine } from "../support/sandbox-machine.ts";
import type { ExecOptions } from "@sandkasten/daemon";
import type { TestSandbox } from "../support/sandbox-machine.ts";

const SIGHUP = 1;
const SIGINT = 2;
const SIGQUIT = 3;
const SIGUSR1 = 10;
const SIGKILL = 9;
const SIGTERM = 15;

describe.each(["bash", "dash", "busybox"] as const)("a command of a shell (%s)", (shell) => {
  let machine: SandboxMachine;
  let sandbox: TestSandbox;

  beforeAll(async () => {
    machine = await SandboxMachine.start();
    const image = shell === "bash" ? "host" : await importSmallImage(machine.embedded, shell);
    sandbox = await machine.sandbox({ image });
  });

  afterAll(async () => {
    await machine[Symbol.asyncDispose]();
  });

  beforeEach(async () => {
    await sandbox.sh("trap - INT; KEPT=yes");
  });

  type Step = (execId: string) => Promise<unknown>;
  const signal =
    (number: number): Step =>
    async (execId) =>
      await sandbox.channel.signal(execId, number);
  const cancel: Step = async (execId) => {
    await sandbox.channel.cancel(execId);
  };

  /** Runs a text and takes one step for each `ready` that it says. */
  async function ended(text: string, steps: readonly Step[], limits: Partial<ExecOptions> = {}) {
    const execId = newExecId();
    const options = { execId, timeoutMs: 15_000, ...limits };
    const stream = await sandbox.channel.exec({ kind: "shell", text }, options);
    let stdout = "";
    let taken = 0;
    for await (const { bytes, stream: which } of stream) {
      if (which === "stdout") stdout += Buffer.from(bytes).toString();
      for (; taken < steps.length && taken < stdout.split("ready\n").length - 1; taken += 1)
        await steps[taken]?.(execId);
    }
    return { ...(await stream.ended), stdout };
  }

  async function isKept(): Promise<void> {
    expect(await sandbox.sh("echo $KEPT")).toMatchObject({
      stdout: "yes\n",
      shellRestarted: false,
    });
  }

  /** It handles TERM and says so. */
  const SURVIVOR = "sh -c 'trap \"echo ready\" TERM; echo ready; while :; do sleep 0.02; done'";

  test("that has removed one of the traps by which it is ended costs no shell", async () => {
    const removed = "trap - 62; echo ready; sleep 10; KEPT=no";
    const { reason } = await ended(removed, [signal(SIGTERM)]);
    expect(reason).toBe("killed");
    await isKept();
  });

  test("that survives a signal can still be cancelled", async () => {
    const { reason } = await ended(`${SURVIVOR}; KEPT=no`, [signal(SIGTERM), cancel]);
    expect(reason).toBe("cancelled");
    await isKept();
  });

  test("that survives a signal still has its time limits", async () => {
    const text = `${SURVIVOR}; KEPT=no`;
    expect((await ended(text, [signal(SIGTERM)], { timeoutMs: 1000 })).reason).toBe("timeout");
    await isKept();
    const idle = await ended(text, [signal(SIGTERM)], { idleTimeoutMs: 500 });
    expect(idle.reason).toBe("idle_timeout");
    await isKept();
  });

  test("that survives a signal ends with its shell", async () => {
    const close: Step = () => sandbox.channel.closeShell("default");
    const { reason } = await ended(SURVIVOR, [signal(SIGTERM), close]);
    expect(reason).toBe("cancelled");
  });

  test("ends by its cancellation, whatever signal follows that", async () => {
    const both: Step = async (execId) => {
      await cancel(execId);
      await signal(SIGTERM)(execId);
    };
    const deaf = "sh -c 'trap \"\" INT TERM; echo ready; while :; do sleep 0.02; done'; KEPT=no";
    expect((await ended(deaf, [both])).reason).toBe("cancelled");
    await isKept();
  });

  describe.each(["trap 'echo mine' INT", "trap '' INT"])("that begins with %s", (trap) => {
    const texts = [
      "echo ready; sleep 1000; KEPT=no; echo rest",
      "echo ready; while :; do :; done; KEPT=no",
    ];

    test.each([SIGKILL, SIGTERM, SIGHUP, SIGQUIT])("ends by signal %i", async (number) => {
      for (const text of texts) {
        const end = await ended(`${trap}; ${text}`, [signal(number)]);
        expect({ text, ...end }).toMatchObject({
          text,
          reason: "killed",
          exitCode: 128 + number,
          shellRestarted: false,
        });
        expect(end.stdout).not.toContain("rest");
        await isKept();
      }
    });

    test("ends by a timeout or a cancellation when it goes on after the interrupt", async () => {
      const deaf = "sh -c 'trap \"\" INT; echo ready; while :; do sleep 0.02; done'; KEPT=no";
      for (const text of [...texts.slice(1), deaf]) {
        const cancelled = await ended(`${trap}; ${text}`, [cancel]);
        expect({ text, ...cancelled }).toMatchObject({
          text,
          reason: "cancelled",
          shellRestarted: false,
        });
        await isKept();
        const late = await ended(`${trap}; ${text}`, [], { timeoutMs: 200 });
        expect({ text, ...late }).toMatchObject({ text, reason: "timeout", shellRestarted: false });
        await isKept();
      }
    });

    test("leaves the trap of an earlier command", async () => {
      await sandbox.sh(trap);
      for (let kills = 1; kills <= 2; kills += 1) {
        for (let kill = 0; kill < kills; kill += 1) await ended(texts[1] ?? "", [signal(SIGKILL)]);
        const told = (await sandbox.sh("trap")).stdout.replaceAll("SIG", "");
        expect(told).toBe(`${trap.replace("trap ", "trap -- ")}\n`);
        await isKept();
      }
      // Its removal lasts, too.
      await sandbox.sh("trap - INT");
      await ended(texts[1] ?? "", [signal(SIGKILL)]);
      expect((await sandbox.sh("trap")).stdout).toBe("");
    });
  });

  test("has the say in an interrupt that it traps", async () => {
    const wait = "while [ -z $SEEN ]; do :; done; echo after; unset SEEN";
    const text = `trap 'echo mine; SEEN=1' INT; echo ready; ${wait}`;
    const end = await ended(text, [signal(SIGINT)]);
    expect(end).toMatchObject({ reason: "exited", exitCode: 0 });
    expect(end.stdout).toMatch(/^ready\n(?:mine\n)+after\n$/u);
  });

  test.runIf(shell === "bash")("ends by HUP alone, with a subshell that has jobs", async () => {
    await sandbox.sh("sleep 1000 & BACKGROUND=$!");
    for (const text of [
      "x=$(echo ready >&3; sleep 1000; echo a)",
      "x=$( (echo ready >&3; sleep 1000; echo a); echo b)",
      "echo $(echo ready >&3; sleep 1000; echo a) | cat",
    ]) {
      const end = await ended(`exec 3>&1; ${text}; KEPT=no`, [signal(SIGHUP)]);
      expect({ text, ...end }).toMatchObject({
        text,
        reason: "killed",
        exitCode: 128 + SIGHUP,
        shellRestarted: false,
      });
      await isKept();
    }
    expect((await sandbox.sh("kill $BACKGROUND")).exitCode).toBe(0);
    // A process that may not have set its traps yet gets the signal again.
    const trap = "trap 'trap \"\" HUP; echo mine; exit' HUP";
    const text = `(${trap}; echo ready; while :; do :; done); KEPT=no`;
    expect((await ended(text, [signal(SIGHUP)])).stdout).toBe("ready\nmine\n");
    await isKept();
  });

  test("does not end by a signal whose trap it removes", async () => {
    await sandbox.sh("trap 'echo mine' USR1");
    const go = "; echo ready; until [ -e go ]; do sleep 0.02; done; rm go; echo after";
    const send: Step = async (execId) => {
      await signal(SIGUSR1)(execId);
      await sandbox.channel.writeFile("go", Buffer.from(""));
    };
    for (const text of [`trap - USR1${go}`, `trap -- - USR2 SIGUSR1${go}`]) {
      const end = await ended(text, [send]);
      expect({ text, ...end }).toMatchObject({
        text,
        reason: "exited",
        stdout: "ready\nafter\n",
        shellRestarted: false,
      });
    }
    await isKept();
  });
});
