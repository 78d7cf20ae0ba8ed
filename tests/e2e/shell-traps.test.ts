/** Traps of code in the stateful shell, the signals for them, and readonly variables. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { importSmallImage } from "../support/images.ts";
import { newExecId, SandboxMachine } from "../support/sandbox-machine.ts";
import type { TestSandbox } from "../support/sandbox-machine.ts";

const SIGUSR1 = 10;
const SIGPIPE = 13;
const SIGURG = 23;
const SIGWINCH = 28;

describe.each(["bash", "dash", "busybox"] as const)("a shell (%s)", (shell) => {
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

  /** Runs a text and sends it a signal once it has printed `ready`; returns its output and what was reached. */
  async function signalled(
    text: string,
    signal = SIGUSR1,
  ): Promise<{ said: string; reached: number }> {
    const execId = newExecId();
    const stream = await sandbox.channel.exec(
      { kind: "shell", text },
      { execId, timeoutMs: 15_000 },
    );
    let said = "";
    let reached = -1;
    for await (const { bytes, stream: which } of stream) {
      if (which === "stdout") said += Buffer.from(bytes).toString();
      if (reached >= 0 || !said.includes("ready\n")) continue;
      reached = await sandbox.channel.signal(execId, signal);
      if (reached === 0) await sandbox.channel.cancel(execId);
    }
    await stream.ended;
    return { said, reached };
  }

  test("a signal that a command traps in the shell runs the trap", async () => {
    await sandbox.sh("KEPT=1");
    const wait = "echo ready; while [ -z $SEEN ]; do :; done; echo after; unset SEEN";
    const text = `trap 'echo got; SEEN=1' USR1; ${wait}`;
    expect(await signalled(text)).toEqual({ said: "ready\ngot\nafter\n", reached: 1 });
    // The trap lasts, as do other traps.
    expect(await signalled(wait)).toEqual({ said: "ready\ngot\nafter\n", reached: 1 });
    const after = await sandbox.sh("trap - USR1; echo $KEPT");
    expect(after).toMatchObject({ stdout: "1\n", shellRestarted: false });
  });

  test.each([
    ["PIPE", SIGPIPE],
    ["URG", SIGURG],
    ["WINCH", SIGWINCH],
  ] as const)("a trap for %s also runs", async (name, signal) => {
    const wait = "echo ready; while [ -z $SEEN ]; do :; done; echo after; unset SEEN";
    await sandbox.sh(`KEPT=5; trap 'echo got; SEEN=1' ${name}`);
    expect(await signalled(wait, signal)).toEqual({ said: "ready\ngot\nafter\n", reached: 1 });
    await sandbox.sh(`trap - ${name}`);
    expect(await signalled("echo ready; while :; do :; done", signal)).toEqual({
      said: "ready\n",
      reached: 0,
    });
    const text = `trap 'echo got; SEEN=1' ${name}; ${wait}; trap - ${name}`;
    expect(await signalled(text, signal)).toEqual({ said: "ready\ngot\nafter\n", reached: 1 });
    expect(await sandbox.sh("echo $KEPT")).toMatchObject({ stdout: "5\n", shellRestarted: false });
  });

  test("a text that mentions traps sets none, and ignored signals stay ignored", async () => {
    await sandbox.sh("trap '' USR2; echo 'trap x USR1' > script; # trap x SIGPIPE");
    expect((await sandbox.sh("trap")).stdout).toMatch(/^trap -- '' (?:SIG)?USR2\n$/u);
    await sandbox.sh("trap 'echo mine' USR1; # USR2");
    await sandbox.sh("echo trap USR1 USR2");
    const { stdout } = await sandbox.sh("trap; trap - USR1 USR2");
    expect(stdout.replaceAll("SIG", "")).toBe("trap -- 'echo mine' USR1\ntrap -- '' USR2\n");
  });

  test("a signal that would end the shell reaches only its programs", async () => {
    await sandbox.sh("KEPT=2");
    const loop = await signalled("echo ready; while :; do :; done");
    expect(loop).toEqual({ said: "ready\n", reached: 0 });
    const program = await signalled("sh -c 'echo ready; exec sleep 1000'; echo rest");
    expect(program).toEqual({ said: "ready\nrest\n", reached: 1 });
    const text = "exec sh -c \"trap 'echo got; exit' USR1; echo ready; while :; do :; done\"";
    expect(await sandbox.sh("echo $KEPT")).toMatchObject({ stdout: "2\n", shellRestarted: false });
    expect(await signalled(text)).toEqual({ said: "ready\ngot\n", reached: 1 });
  });

  test.runIf(shell === "bash")(
    "if a command sets an EXIT trap before it ends the shell, only the trap runs",
    async () => {
      for (const [cwd, text] of [
        ["/tmp", "cd /tmp; trap 'echo \"it'\\''s\" $?' EXIT; exit 3"],
        ["/tmp", 'cd /tmp; trap -- "echo it\\\\\'s 3" EXIT INT; f() { exit 3; }; f'],
        ["/tmp", "set -e; cd /tmp; bye() { echo it\\'s $?; }; trap bye 0; ( exit 3 )"],
        [
          "/usr",
          "trap 'cd /usr; echo it\\'\\''s 3' EXIT; ( trap 'cd /' EXIT; exit ); cd /tmp; exit 3",
        ],
      ] as const) {
        await sandbox.sh("cd /");
        expect({ text, ...(await sandbox.sh(text)) }).toMatchObject({
          text,
          stdout: "it's 3\n",
          stderr: "",
          exitCode: 3,
          cwd,
          shellRestarted: true,
        });
        expect(await sandbox.sh("pwd")).toMatchObject({ stdout: `${cwd}\n`, shellRestarted: true });
      }
    },
  );

  test.runIf(shell === "bash")(
    "nothing of the runner's is left next to an EXIT trap that does not run",
    async () => {
      await sandbox.sh("trap 'echo bye' EXIT; false && exit 3; alias trap=false");
      const { stdout } = await sandbox.sh("unalias trap\ntype -t trap; trap -p EXIT; trap - EXIT");
      expect(stdout).toBe("builtin\ntrap -- 'echo bye' EXIT\n");
      // A trace shows the code's own commands.
      const traced = await sandbox.sh("set -x; trap 'echo bye' EXIT; false && exit; set +x");
      expect(traced.stderr.replaceAll(/^\++/gmu, "+")).toBe(
        "+ trap 'echo bye' EXIT\n+ false\n+ set +x\n",
      );
      await sandbox.sh("trap - EXIT");
    },
  );

  test("a readonly variable fails a command that sets it", async () => {
    await sandbox.sh("readonly FIXED=old; KEPT=3");
    const refused = await sandbox.sh("echo run", { env: { OTHER: "x", FIXED: "it's new" } });
    expect(refused).toMatchObject({ stdout: "", shellRestarted: false });
    expect(refused.stderr).toMatch(/sh: .*FIXED: (?:is read only|readonly variable)\n/u);
    expect(refused.exitCode).not.toBe(0);
    const after = await sandbox.sh("echo $FIXED $KEPT $OTHER.", { env: { KEPT: "it's $HOME" } });
    expect(after).toMatchObject({ stdout: "old it's $HOME .\n", exitCode: 0 });
    expect((await sandbox.sh("echo $FIXED $KEPT")).stdout).toBe("old 3\n");
    await sandbox.sh("exit");
  });

  test.runIf(shell === "bash")("a trace that cannot be changed fails no command", async () => {
    const env = { TRACEPARENT: "new", OTHER: "x" };
    const traced = await sandbox.sh("echo $TRACEPARENT $OTHER", { env });
    expect(traced).toMatchObject({ stdout: "new x\n", stderr: "", exitCode: 0 });
    await sandbox.sh("readonly TRACEPARENT=old");
    for (const given of [env, { TRACEPARENT: "new" }]) {
      const ran = await sandbox.sh("echo $TRACEPARENT; false", { env: given });
      expect(ran).toMatchObject({ stdout: "old\n", exitCode: 1 });
    }
    await sandbox.sh("exit");
  });

  test.runIf(shell === "bash")("what bash sets itself fails no command", async () => {
    const env = { UID: "5", SHELLOPTS: "x", _: "/bin/node", SHLVL: "7", A: "b" };
    const ran = await sandbox.sh("echo $UID $A", { env });
    expect(ran).toMatchObject({ stdout: "1000 b\n", stderr: "", exitCode: 0 });
  });

  test("env changes only the variables that it names", async () => {
    await sandbox.sh("( exit 7 )");
    expect((await sandbox.sh("echo $? $A", { env: { A: "b" } })).stdout).toBe("7 b\n");
  });

  test.runIf(shell !== "dash")("an ERR trap runs once for each failure, and lasts", async () => {
    const first = await sandbox.sh("KEPT=4; trap 'echo error $?' ERR; ( exit 3 )");
    expect(first).toMatchObject({ stdout: "error 3\n", exitCode: 3 });
    const next = await sandbox.sh("( exit 3 ); true; echo 'it'\\''s' #");
    expect(next).toMatchObject({ stdout: "error 3\nit's\n", exitCode: 0 });
    expect(await sandbox.sh("false")).toMatchObject({ stdout: "error 1\n", exitCode: 1 });
    // What the code does not finish stays unfinished.
    expect((await sandbox.sh('echo "ERR')).exitCode).toBe(2);
    expect((await sandbox.sh("echo ERR\\")).stdout).toMatch(/^ERR\\?\n$/u);
    expect((await sandbox.sh("cat <<END\nERR")).stdout.trim()).toBe("ERR");
    expect((await sandbox.sh("trap")).stdout).toBe("trap -- 'echo error $?' ERR\n");
    await sandbox.sh("trap - ERR");
    expect(await sandbox.sh("false; trap")).toMatchObject({ stdout: "" });
    expect((await sandbox.sh("echo $KEPT")).stdout).toBe("4\n");
  });

  test.runIf(shell === "dash")(
    "a word that names a trap of other shells changes nothing",
    async () => {
      expect(await sandbox.sh("echo ERR; ( exit 3 )")).toMatchObject({
        stdout: "ERR\n",
        stderr: "",
        exitCode: 3,
      });
    },
  );
});
