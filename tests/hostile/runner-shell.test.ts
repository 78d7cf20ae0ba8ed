/** Threats: forged end markers, forged results and control characters. Whatever code prints or forges, a command's end and output are correct. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Channel } from "@sandkasten/daemon";
import { aroundCase, warmUp } from "../support/oracles/around-case.ts";
import { runtimeUnderTest } from "../support/runtime-under-test.ts";
import { newExecId, SandboxMachine } from "../support/sandbox-machine.ts";
import type { TestSandbox } from "../support/sandbox-machine.ts";
import { installAttack } from "../torture/attacks/install-attack.ts";
import { outcomeOf } from "../torture/attacks/outcome.ts";

let machine: SandboxMachine;
beforeAll(async () => {
  machine = await SandboxMachine.start({ runtime: runtimeUnderTest() });
  await warmUp(machine);
});
afterAll(() => machine[Symbol.asyncDispose]());

/** Commands that must pass through unchanged, each in less than its timeout. */
async function expectHonestCommands(sandbox: TestSandbox, rounds = 5): Promise<void> {
  for (let i = 0; i < rounds; i++) {
    const ran = await sandbox.sh(`echo out${i}; echo err${i} >&2; (exit ${i + 3})`, {
      timeoutMs: 4_000,
    });
    expect(ran).toMatchObject({
      reason: "exited",
      exitCode: i + 3,
      stdout: `out${i}\n`,
      stderr: `err${i}\n`,
    });
  }
  expect(await outcomeOf(sandbox.channel.ping())).toBe("done");
}

/** All bytes of a command's stdout. */
async function rawOutput(channel: Channel, text: string, shell = "default"): Promise<Buffer> {
  const exec = await channel.exec({ kind: "shell", text, shell }, { execId: newExecId() });
  const parts: Uint8Array[] = [];
  for await (const { bytes } of exec) parts.push(Uint8Array.from(bytes));
  return Buffer.concat(parts);
}

describe("output of a command", () => {
  test("is text, even if it looks like our own reports and frames (threat: forged end markers)", async () => {
    await aroundCase(machine, async ({ sandbox }) => {
      const { sh } = await sandbox();
      const frame = `\\0\\0\\0\\002\\003\\0\\0\\0\\001{}`;
      const ran = await sh(
        `printf '00112233445566778899aabbccddeeff 0 /\\0'; printf 'exit 0 /tmp\\0' >&2
         printf '${frame}'; echo '{"end_reason":"exited","exit_code":0}'; (exit 9)`,
      );
      expect(ran).toMatchObject({ reason: "exited", exitCode: 9, cwd: "/workspace" });
      expect(ran.stdout).toBe(
        `00112233445566778899aabbccddeeff 0 /\0\0\0\0\u0002\u0003\0\0\0\u0001{}{"end_reason":"exited","exit_code":0}\n`,
      );
      expect(ran.stderr).toBe("exit 0 /tmp\0");
    });
  });

  test("is unchanged byte for byte, including terminal codes and invalid UTF-8 (threat: control characters)", async () => {
    await aroundCase(machine, async ({ sandbox }) => {
      const { channel, sh } = await sandbox();
      await sh(`for ((i=0;i<256;i++)); do printf "\\\\x$(printf %02x $i)"; done >all`);
      const all = Buffer.from(Uint8Array.from({ length: 256 }, (_, byte) => byte));
      expect((await rawOutput(channel, "cat all")).equals(all)).toBe(true);
      const codes = Buffer.from("\u001b]0;title\u0007\u001b[2J\u001b[31m\u202e\r\n\ufffe");
      const broken = Buffer.from([0xc0, 0x80, 0xed, 0xa0, 0x80, 0xf5, 0x80, 0xff, 0xfe]);
      await channel.writeFile("codes", Buffer.concat([codes, broken]));
      const output = await rawOutput(channel, "cat codes");
      expect(output.equals(Buffer.concat([codes, broken]))).toBe(true);
    });
  });
});

describe("a background job (threat: forged results)", () => {
  for (const kind of ["forged", "text", "nul"] as const)
    test(`that floods the reports with ${kind} bytes changes no command's end`, async () => {
      await aroundCase(machine, async ({ sandbox }) => {
        const attacked = await sandbox();
        const flood = await installAttack(attacked.channel, "flood-report");
        const started = await attacked.sh(`for i in 1 2 3; do ${flood} ${kind} $$ & done`, {
          timeoutMs: 4_000,
        });
        expect.soft(started).toMatchObject({ reason: "exited", exitCode: 0 });
        await expectHonestCommands(attacked, 3);
      });
    });

  test("that looks for the report, in the shell's own image, gives no command another end", async () => {
    await aroundCase(machine, async ({ sandbox }) => {
      const attacked = await sandbox();
      // A subshell is a copy of the shell, with all its descriptors.
      await attacked.sh(
        `( while :; do for n in {0..40}; do for fd in {3..255}; do
             printf "\\1 $n 0 -" >&$fd; printf "\\2 $n 0 -\\0/forged\\0/\\0" >&$fd
           done; done; done ) 2>/dev/null &
         ( while :; do cat /proc/$$/{environ,maps,fd/*} </dev/null >/dev/null; done ) 2>/dev/null &
         ( exec dd if=/proc/$$/mem of=/dev/null bs=4096 skip=1 ) 2>/dev/null &`,
      );
      for (let i = 0; i < 3; i++)
        expect(await attacked.sh("sleep 1; false", { timeoutMs: 10_000 })).toMatchObject({
          reason: "exited",
          exitCode: 1,
          cwd: "/workspace",
        });
      await expectHonestCommands(attacked, 3);
    });
  });

  test("that takes packets from the shell causes no partial command and no wrong end", async () => {
    await aroundCase(machine, async ({ sandbox }) => {
      const attacked = await sandbox();
      for (let i = 0; i < 3; i++) {
        // One packet less each time the shell waits for the next.
        await attacked.sh("(read -rN 1 taken <&255) 2>/dev/null &");
        const ran = await attacked.sh(`echo whole >>ran.${i}; cat ran.${i}; (exit 3)`, {
          timeoutMs: 10_000,
        });
        expect(ran).toMatchObject({ reason: "exited", exitCode: 3, stdout: "whole\n" });
      }
    });
  });

  test("of one shell does not affect another shell", async () => {
    await aroundCase(machine, async ({ sandbox }) => {
      const attacked = await sandbox();
      const flood = await installAttack(attacked.channel, "flood-report");
      const victim = { kind: "shell", shell: "victim" } as const;
      const pid = await rawOutput(attacked.channel, "echo $$", "victim");
      await attacked.sh(`${flood} forged ${pid.toString().trim()} & printf() { :; }; set -x`);
      const exec = await attacked.channel.exec(
        { ...victim, text: "sleep 1; false" },
        { execId: newExecId() },
      );
      expect(await exec.ended).toMatchObject({ reason: "exited", exitCode: 1 });
    });
  });

  test("that opens and closes the next command's pipes takes no output", async () => {
    await aroundCase(machine, async ({ sandbox }) => {
      const attacked = await sandbox();
      const opener = await installAttack(attacked.channel, "open-output");
      await attacked.sh(`for i in 1 2; do ${opener} $$ & done`);
      await expectHonestCommands(attacked, 20);
    });
  });

  test("that keeps sharing the directory of a shell that has ended moves no later shell", async () => {
    await aroundCase(machine, async ({ sandbox }) => {
      const attacked = await sandbox();
      const clone = process.arch === "x64" ? 56 : 220;
      const python = `import ctypes, os, time
CLONE_FS = 0x200
if ctypes.CDLL(None).syscall(${clone}, CLONE_FS | 17, 0, 0, 0, 0) == 0:
    while True:
        for place in ["/tmp", "/usr"]:
            os.chdir(place)
            os.umask(0o777)
            time.sleep(0.01)
os.chdir("/tmp")`;
      const ran = await attacked.sh(`exec python3 -c '${python}' >/dev/null 2>&1`);
      expect(ran).toMatchObject({ reason: "exited", exitCode: 0, shellRestarted: true });
      // It may move between two checks of the runner, which then uses the last report.
      expect(["/tmp", "/usr", "/workspace"]).toContain(ran.cwd);
      expect(await attacked.sh("cd /; sleep 0.2; pwd; umask")).toMatchObject({
        stdout: "/\n0022\n",
        shellRestarted: true,
      });
      await attacked.channel.writeFile("mine", Buffer.from("x"));
      expect((await attacked.run(["stat", "-c", "%a", "mine"])).stdout).toBe("644\n");
      await expectHonestCommands(attacked);
    });
  });

  test("that reports a false directory does not change the real one", async () => {
    await aroundCase(machine, async ({ sandbox }) => {
      const attacked = await sandbox();
      const killed = await attacked.sh("cd /tmp; PWD=/no/such/place; pwd() { :; }; kill -9 $$");
      expect(killed).toMatchObject({ reason: "killed", exitCode: 137, cwd: "/tmp" });
      const next = await attacked.sh("pwd");
      expect(next).toMatchObject({ stdout: "/tmp\n", exitCode: 0, shellRestarted: true });
      // A link that leads elsewhere for each process that follows it.
      const linked = await attacked.sh("cd /usr; cd /proc/self/cwd; PWD=/proc/self/cwd; exit 4");
      expect(linked).toMatchObject({ exitCode: 4, cwd: "/usr" });
      await expectHonestCommands(attacked);
    });
  });

  test("that tries to read the shell's input is refused, and changes no command", async () => {
    await aroundCase(machine, async ({ sandbox }) => {
      const attacked = await sandbox();
      // The shell's input is a socket only while it waits for a command, so the attackers wait,
      // too. On gVisor they cannot even see what it is, only try repeatedly.
      const wait =
        runtimeUnderTest() === "runsc"
          ? "for n in 1 2 3 4 5; do sleep 0.1; cat /proc/$$/fd/0 >>stolen.$i 2>/dev/null; done"
          : "until [ -S /proc/$$/fd/0 ]; do sleep 0.01; done";
      const steal = `${wait}; cat /proc/$$/fd/0 >>stolen.$i 2>refused.$i`;
      await attacked.sh(`for i in 1 2 3 4; do (${steal}; touch tried.$i) & done`);
      const tried = ["bash", "-c", "ls tried.* | wc -l"];
      await expect
        .poll(async () => (await attacked.run(tried)).stdout, { timeout: 20_000 })
        .toBe("4\n");
      const outcome = await attacked.sh("cat stolen.*; cat refused.*");
      expect(outcome.stdout).toMatch(
        /^(cat: \/proc\/\d+\/fd\/0: (?:No such device or address|Permission denied)\n){4}$/u,
      );
      await expectHonestCommands(attacked);
    });
  });
});

describe("a shell that is misused", () => {
  const ended = (exitCode: number) => ({ reason: "exited", exitCode });
  const killed = { reason: "killed", exitCode: 137 };
  const timedOut = { reason: "timeout", exitCode: 124 };

  for (const [what, text, end, next] of [
    ["killed", "kill -9 $$", killed, "a new shell"],
    ["stopped", "kill -STOP $$", timedOut, "the same shell"],
    ["left", "exit 3", ended(3), "a new shell"],
    ["replaced", "exec true", ended(0), "a new shell"],
    [
      "robbed of its descriptors",
      'for fd in {0..255}; do eval "exec $fd<&-"; done',
      ended(0),
      "a new shell",
    ],
    ["given other descriptors", "exec </dev/zero >/dev/null 2>&1", ended(0), "the same shell"],
    [
      "left without `command`",
      "command() { :; }; printf() { :; }; builtin() { :; }; unset() { :; }",
      ended(0),
      "the same shell",
    ],
    ["restricted", "set -r", ended(1), "a new shell"],
    [
      "told a place of 200 kB",
      "PWD=/$(head -c 200000 /dev/zero | tr '\\0' x)",
      ended(0),
      "the same shell",
    ],
    ["made to stop at every error", "set -eu; false", ended(1), "a new shell"],
    ["allowed no files", "ulimit -n 3; ulimit -u 1", ended(0), "a new shell"],
  ] as const)
    test(`(${what}) ends its command correctly, and ${next} runs the next`, async () => {
      await aroundCase(machine, async ({ sandbox }) => {
        const attacked = await sandbox();
        await attacked.sh("cd /tmp; KEPT=1");
        // Enough for those that end by themselves; the others use all of it.
        expect(await attacked.sh(text, { timeoutMs: 1_500 })).toMatchObject(end);
        const isNew = next === "a new shell";
        expect(await attacked.sh("echo ${KEPT-gone}; pwd", { timeoutMs: 4_000 })).toMatchObject({
          exitCode: 0,
          stdout: isNew ? "gone\n/tmp\n" : "1\n/tmp\n",
          shellRestarted: isNew,
        });
        await expectHonestCommands(attacked, 2);
      });
    });
});
