/** Threats 39, 40 and 48: whatever code prints or forges, a command's end and output are the true ones. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Channel } from "@sandkasten/daemon";
import { aroundCase, warmUp } from "../support/oracles/around-case.ts";
import { runtimeUnderTest } from "../support/runtime-under-test.ts";
import { newExecId, SandboxMachine } from "../support/sandbox-machine.ts";
import type { TestSandbox } from "../support/sandbox-machine.ts";
import { installAttack } from "../torture/attacks/install-attack.ts";
import { afterKillingAll, outcomeOf } from "../torture/attacks/outcome.ts";

let machine: SandboxMachine;
beforeAll(async () => {
  machine = await SandboxMachine.start({ runtime: runtimeUnderTest() });
  await warmUp(machine);
});
afterAll(() => machine[Symbol.asyncDispose]());

/** Commands that must come through as they are, each in less than its timeout. */
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
async function rawOutput(channel: Channel, text: string): Promise<Buffer> {
  const exec = await channel.exec({ kind: "shell", text }, { execId: newExecId() });
  const parts: Uint8Array[] = [];
  for await (const { bytes } of exec) parts.push(Uint8Array.from(bytes));
  return Buffer.concat(parts);
}

describe("what a command prints", () => {
  test("is text, also when it looks like our own reports and frames (threat 39)", async () => {
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

  test("comes out byte for byte, terminal codes and broken UTF-8 included (threat 48)", async () => {
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

describe("a background job (threat 40)", () => {
  for (const kind of ["forged", "text", "nul"] as const)
    test(`that floods the report pipe with ${kind} bytes changes no command's end`, async () => {
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

  test("that opens and closes the next command's pipes takes no output away", async () => {
    await aroundCase(machine, async ({ sandbox }) => {
      const attacked = await sandbox();
      const opener = await installAttack(attacked.channel, "open-output");
      await attacked.sh(`for i in 1 2; do ${opener} $$ & done`);
      await expectHonestCommands(attacked, 20);
    });
  });

  test("that forges the shell's last word changes no status, and the shell comes back", async () => {
    await aroundCase(machine, async ({ sandbox }) => {
      const attacked = await sandbox();
      const ran = await attacked.sh(
        `farewell=$(trap -p EXIT | grep -o '/run/sandkasten/exit-[0-9a-f]*')
         printf '/no/such/place\\0' >$farewell; kill -9 $$`,
        { timeoutMs: 4_000 },
      );
      expect(ran).toMatchObject({ reason: "killed", exitCode: 137 });
      expect(await attacked.sh("pwd")).toMatchObject({ exitCode: 0, shellRestarted: true });
      await expectHonestCommands(attacked);
    });
  });

  test("that eats the shell's own input costs one command its time, and no more", async () => {
    await aroundCase(machine, async ({ sandbox }) => {
      const attacked = await sandbox();
      await attacked.sh("for fd in 0 10; do cat /proc/$$/fd/$fd >stolen.$fd & done; sleep 0.2");
      const robbed = await attacked.sh("echo robbed", { timeoutMs: 1_000 });
      expect(robbed.reason).toMatch(/timeout|exited/u);
      if (robbed.reason === "exited") expect(robbed.stdout).toBe("robbed\n");
      // What held on to the old shell's input goes with it.
      expect(await afterKillingAll(attacked, "true")).toMatchObject({ exitCode: 0 });
      await expectHonestCommands(attacked);
    });
  });
});

describe("a shell that is misused", () => {
  const ends = { reason: expect.stringMatching(/killed|exited|timeout/u) as string };

  for (const [what, text] of [
    ["killed", "kill -9 $$"],
    ["stopped", "kill -STOP $$"],
    ["left", "exit 3"],
    ["replaced", "exec true"],
    ["robbed of its descriptors", 'for fd in {0..255}; do eval "exec $fd<&-"; done'],
    ["given other descriptors", "exec </dev/zero >/dev/null 2>&1"],
    ["left without `command`", "command() { :; }; printf() { :; }; builtin() { :; }"],
    ["restricted", "set -r"],
    ["told a place of 200 kB", "PWD=/$(head -c 200000 /dev/zero | tr '\\0' x)"],
    ["made to stop at every error", "set -eu; false"],
    ["allowed no files", "ulimit -n 3; ulimit -u 1"],
  ] as const)
    test(`(${what}) ends its command in time, and a shell takes the next`, async () => {
      await aroundCase(machine, async ({ sandbox }) => {
        const attacked = await sandbox();
        await attacked.sh("cd /tmp; KEPT=1");
        expect(await attacked.sh(text, { timeoutMs: 300 })).toMatchObject(ends);
        // If this one still finds the misused shell, it ends by its own timeout.
        await attacked.sh("true", { timeoutMs: 200 });
        const next = await afterKillingAll(attacked, "echo ${KEPT-gone}");
        expect(next).toMatchObject({ exitCode: 0, stdout: "gone\n", shellRestarted: true });
        await expectHonestCommands(attacked, 2);
      });
    });
});
