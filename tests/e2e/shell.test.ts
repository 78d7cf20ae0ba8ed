import { createHash } from "node:crypto";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { fillSmallRoot, importSmallImage, importTree } from "../support/images.ts";
import { MIB, newExecId, SandboxMachine } from "../support/sandbox-machine.ts";
import type { TestSandbox } from "../support/sandbox-machine.ts";

/** The shells of images: bash on most, dash and busybox on small ones. */
describe.each(["bash", "dash", "busybox"] as const)("the stateful shell (%s)", (shell) => {
  let machine: SandboxMachine;
  let image: string;
  let sandbox: TestSandbox;

  beforeAll(async () => {
    machine = await SandboxMachine.start();
    image = shell === "bash" ? "host" : await importSmallImage(machine.embedded, shell);
    sandbox = await machine.sandbox({ image });
  });

  afterAll(async () => {
    await machine[Symbol.asyncDispose]();
  });

  /** Processes of the sandbox whose command line contains a text. */
  async function running(text: string): Promise<number> {
    const { stdout } = await sandbox.run([
      "/bin/sh",
      "-c",
      `n=0; for f in /proc/[0-9]*/cmdline; do
         case "$(tr '\\0' ' ' <"$f" 2>/dev/null || cat "$f" 2>/dev/null)" in
           *sh*-c*) ;; *"${text}"*) n=$((n+1));;
         esac
       done; echo $n`,
    ]);
    return Number(stdout);
  }

  async function freshShell(): Promise<void> {
    await sandbox.sh(":", { timeoutMs: 20_000 });
    await sandbox.channel.closeShell("default");
  }

  test("directory, variables and functions last", async () => {
    await sandbox.sh("cd /tmp; X=1; export Y=2; greet() { echo hello $1; }");
    const { stdout, cwd } = await sandbox.sh("pwd; echo $X $Y; greet you");
    expect(stdout).toBe("/tmp\n1 2\nhello you\n");
    expect(cwd).toBe("/tmp");
  });

  test("an alias can be used in the next command", async () => {
    await sandbox.sh("alias shout='echo LOUD'");
    expect((await sandbox.sh("shout")).stdout).toBe("LOUD\n");
  });

  test("a heredoc is read exactly to its end", async () => {
    const { stdout } = await sandbox.sh("cat <<'END'\n$HOME `x` \"'\nEND\necho after");
    expect(stdout).toBe("$HOME `x` \"'\nafter\n");
  });

  test("an unterminated heredoc does not hang and does not eat the next command", async () => {
    expect((await sandbox.sh("cat <<END\nabc")).stdout).toBe(shell === "bash" ? "abc\n" : "abc");
    expect((await sandbox.sh("echo next")).stdout).toBe("next\n");
  });

  test.each([
    'echo "open',
    "echo 'open",
    "if true; then",
    "echo $(",
    'f() { echo "$(echo a',
    "{ echo a",
    "echo ${",
    "case x in",
    "echo )",
  ])("the incomplete %s is a syntax error and the shell continues", async (text) => {
    await sandbox.sh("KEPT=yes");
    expect(await sandbox.sh(text)).toMatchObject({ reason: "exited", exitCode: 2, stdout: "" });
    // bash 5.2 corrupts its memory when it sources such a text, and dies a few commands later.
    for (let round = 0; round < 5; round += 1)
      expect(await sandbox.sh("x=$(echo $KEPT); echo $x; set >/dev/null")).toMatchObject({
        stdout: "yes\n",
        shellRestarted: false,
      });
  });

  test("errors name the shell and only lines of the command", async () => {
    const errors: string[] = [];
    for (const text of [
      "echo one\necho )",
      "\nno-such-program",
      "cd /no-such-directory",
      "echo 'a",
    ])
      errors.push((await sandbox.sh(text)).stderr);
    const all = errors.join("");
    expect(all).not.toMatch(/sandkasten|cmd-|\/run|PROMPT|printf|command (?!not)/u);
    for (const line of all.trim().split("\n")) expect(line).toMatch(/^(\/bin\/|ba)?sh: /u);
    if (shell === "bash") {
      expect(errors[0]).toMatch(/line 2: syntax error/u);
      expect(errors[1]).toBe("bash: no-such-program: command not found\n");
    }
    if (shell === "dash") expect(errors[1]).toMatch(/sh: 2: .*no-such-program: not found\n$/u);
  });

  test.runIf(shell === "bash")(
    "a command is not a file, and its lines are counted from one",
    async () => {
      const text = [
        'echo "[${BASH_SOURCE[*]}] [${FUNCNAME[*]}] $0 $LINENO"',
        "where() { caller; echo ${BASH_SOURCE[0]}; }",
        "where",
        "sleep 1 & jobs",
        "echo $LINENO",
      ].join("\n");
      const { stdout, stderr } = await sandbox.sh(text);
      expect(stdout.replace(/\s+Running\s+/u, " ")).toMatch(
        /^\[\] \[\] \S*bash 1\n3 NULL\nmain\n\[\d+\]\+ sleep 1 &\n5\n$/u,
      );
      expect(stderr).toBe("");
      // As at a prompt; a file that is sourced would have a name.
      expect(await sandbox.sh("return 5; echo on")).toMatchObject({ stdout: "on\n", exitCode: 0 });
    },
  );

  test.runIf(shell !== "bash")("return ends a command with its status", async () => {
    expect(await sandbox.sh("return 5; echo no")).toMatchObject({ stdout: "", exitCode: 5 });
  });

  test("set -u: an unset variable fails the command, not the shell", async () => {
    const { exitCode, stdout } = await sandbox.sh("set -u; KEPT=2; echo $unset_thing; echo no");
    expect(exitCode).not.toBe(0);
    expect(stdout).toBe("");
    expect((await sandbox.sh("set +u; echo $KEPT")).stdout).toBe("2\n");
  });

  test("set -e: a failure ends the shell as it would at a prompt, and a new one starts", async () => {
    const { exitCode, stdout } = await sandbox.sh("set -e; false; echo no");
    expect({ exitCode, stdout }).toEqual({ exitCode: 1, stdout: "" });
    expect(await sandbox.sh("echo back")).toMatchObject({
      stdout: "back\n",
      shellRestarted: true,
    });
    expect((await sandbox.sh("true")).shellRestarted).toBe(false);
  });

  test("exec 2>&1 redirects, and nothing is lost afterwards", async () => {
    expect((await sandbox.sh("exec 2>&1; echo a; echo b >&2")).stdout).toBe("a\nb\n");
    expect(await sandbox.sh("echo c; echo d >&2")).toMatchObject({ stdout: "c\n", stderr: "d\n" });
  });

  test("traps are kept and run", async () => {
    await sandbox.sh("trap 'echo trapped' USR1");
    expect((await sandbox.sh("kill -USR1 $$; echo done")).stdout).toContain("trapped\n");
    await sandbox.sh("trap - USR1");
  });

  test("cat and read without stdin see the end of input at once", async () => {
    const { stdout } = await sandbox.sh('cat; read line; echo "[$line] $?"');
    expect(stdout).toBe("[] 1\n");
  });

  test("stdin is exactly the given input", async () => {
    const stream = await sandbox.channel.exec(
      { kind: "shell", text: 'read first; echo "got $first"; cat' },
      { execId: newExecId(), stdin: true },
    );
    await stream.writeStdin(Buffer.from("one\ntwo\nthree"));
    await stream.closeStdin();
    let text = "";
    for await (const { bytes } of stream) text += Buffer.from(bytes).toString();
    expect(text).toBe("got one\ntwo\nthree");
  });

  test("a command's stdin is not the rest of the script", async () => {
    expect((await sandbox.sh("cat\necho still here")).stdout).toBe("still here\n");
  });

  test("a script of many lines runs completely", async () => {
    const { stdout, exitCode } = await sandbox.sh(
      "n=0\nwhile [ $n -lt 3 ]; do\n  n=$((n+1))\n  echo $n\ndone\n( exit 7 )",
    );
    expect({ stdout, exitCode }).toEqual({ stdout: "1\n2\n3\n", exitCode: 7 });
  });

  test("a command of 1 MiB runs", async () => {
    const tail = "\necho end";
    const text = `: '${"x".repeat(MIB - tail.length - 4)}'${tail}`;
    expect(text.length).toBe(MIB);
    expect((await sandbox.sh(text)).stdout).toBe("end\n");
  });

  test("a command over 1 MiB is refused", async () => {
    await expect(sandbox.sh(`: ${"x".repeat(MIB)}`)).rejects.toMatchObject({
      code: expect.stringMatching(/PAYLOAD_TOO_LARGE|INVALID_REQUEST/u),
    });
  });

  test("NUL, invalid UTF-8, CR and a missing last newline pass unchanged", async () => {
    const stream = await sandbox.channel.exec(
      { kind: "shell", text: String.raw`printf 'a\000b\377\376\r\nend'` },
      { execId: newExecId() },
    );
    const parts: Buffer[] = [];
    for await (const { bytes } of stream) parts.push(Buffer.from(bytes));
    expect(Buffer.concat(parts).toString("latin1")).toBe("a\0b\xff\xfe\r\nend");
  });

  test("exit 3 reports 3; a new shell starts where the old one was", async () => {
    await sandbox.sh("cd /");
    expect(await sandbox.sh("cd /tmp; echo bye; exit 3")).toMatchObject({
      exitCode: 3,
      reason: "exited",
      stdout: "bye\n",
      cwd: "/tmp",
    });
    expect(await sandbox.sh("pwd")).toMatchObject({ stdout: "/tmp\n", shellRestarted: true });
  });

  test("continues after root has emptied /run", async () => {
    const root = await machine.sandbox({ image, profile: "root" });
    await root.sh("KEPT=yes; cd /tmp");
    await root.sh("rm -rf /run/* 2> rest; ls -A /run");
    for (let n = 0; n < 2; n++)
      expect(await root.sh("echo $KEPT $PWD; (exit 3)")).toMatchObject({
        stdout: "yes /tmp\n",
        exitCode: 3,
        shellRestarted: false,
      });
    // Shells that start afterwards need the directory, too.
    await root.sh("rm -rf /run/* 2> rest");
    const other = { kind: "shell", text: "true", shell: "other" } as const;
    const stream = await root.channel.exec(other, { execId: newExecId() });
    expect(await stream.ended).toMatchObject({ exitCode: 0 });
    expect(await root.sh("echo $KEPT")).toMatchObject({ stdout: "yes\n", shellRestarted: false });
    expect(await root.sh("rm -rf /run/* 2> rest; exit 4")).toMatchObject({ exitCode: 4 });
    expect(await root.sh("pwd")).toMatchObject({ stdout: "/tmp\n", shellRestarted: true });
  });

  test("kill $$ and kill -9 $$ do not hang", async () => {
    // Interactive shells ignore a request to end; either way the command ends.
    expect((await sandbox.sh("kill $$; echo survived")).reason).toMatch(/exited|killed/u);
    expect(await sandbox.sh("kill -9 $$")).toMatchObject({ reason: "killed", exitCode: 137 });
    expect(await sandbox.sh("echo on")).toMatchObject({ stdout: "on\n", shellRestarted: true });
  });

  test("exec of another program reports that program's end", async () => {
    expect(await sandbox.sh("exec sleep 2.5")).toMatchObject({ reason: "exited", exitCode: 0 });
    expect(await sandbox.sh("exec sh -c 'echo other; exit 5'")).toMatchObject({
      exitCode: 5,
      stdout: "other\n",
    });
    expect(await sandbox.sh("exec sleep 1000", { timeoutMs: 1_500 })).toMatchObject({
      reason: "timeout",
      exitCode: 124,
    });
    expect(await sandbox.sh("echo on")).toMatchObject({ stdout: "on\n", shellRestarted: true });
  });

  test("a background server returns at once, keeps running, and its later output is kept", async () => {
    const execId = newExecId();
    const first = await sandbox.sh("(while :; do echo tick; sleep 0.1; done) & echo started", {
      execId,
    });
    expect(first.stdout).toContain("started\n");
    expect(first.reason).toBe("exited");
    expect((await sandbox.sh("echo other")).output).toBe("other\n");
    const tail = await sandbox.channel.attach(execId, {
      offset: first.stdoutBytes,
      until: "closed",
    });
    const ticks: string[] = [];
    for await (const { bytes } of tail) {
      ticks.push(Buffer.from(bytes).toString());
      if (ticks.length === 3) await sandbox.channel.signal(execId, 9, { tree: true });
    }
    expect(ticks.join("")).toMatch(/^(tick\n){3,}$/);
    expect(first.outputOpen).toBe(true);
  });

  test("a timeout ends everything that the command started, but not earlier jobs and the shell", async () => {
    await sandbox.sh("KEPT=3; sleep 4001 & setsid sleep 4002 &");
    const { reason, exitCode, stdout } = await sandbox.sh(
      "echo before; sleep 5001 & setsid sleep 5002 & (setsid sleep 5003 &); (sleep 5004 &); sleep 5005",
      { timeoutMs: 1_500 },
    );
    expect({ reason, exitCode, stdout }).toEqual({
      reason: "timeout",
      exitCode: 124,
      stdout: "before\n",
    });
    expect(await running("sleep 500")).toBe(0);
    expect(await running("sleep 400")).toBe(2);
    expect(await sandbox.sh("echo $KEPT")).toMatchObject({ stdout: "3\n", shellRestarted: false });
    await sandbox.sh(
      'for f in /proc/[0-9]*; do case "$(cat $f/cmdline 2>/dev/null)" in sleep400*) kill -9 ${f#/proc/};; esac; done',
    );
  });

  test("a cancelled line whose program ignored the interrupt prints nothing", async () => {
    const { channel } = sandbox;
    const execId = newExecId();
    const text = `sh -c "trap '' INT; echo partial; sleep 60"; echo never; echo never >&2`;
    const exec = await channel.exec({ kind: "shell", text }, { execId });
    let said = "";
    for await (const { bytes } of exec) {
      // Only then does the program ignore the interrupt.
      if (said === "") expect(await channel.cancel(execId)).toBe(true);
      said += Buffer.from(bytes).toString();
    }
    expect(said.trim()).toBe("partial");
    expect(await exec.ended).toMatchObject({ reason: "cancelled", exitCode: 130 });
    expect((await sandbox.sh("echo on")).stdout).toBe("on\n");
  });

  test("a program that ignores the interrupt is killed; a loop of the shell itself is stopped", async () => {
    await sandbox.sh("KEPT=4");
    const deaf = await sandbox.sh("sh -c \"trap '' INT; while :; do sleep 0.05; done\"", {
      timeoutMs: 300,
    });
    expect(deaf).toMatchObject({ reason: "timeout", exitCode: 124 });
    const loop = await sandbox.sh("while :; do :; done", { timeoutMs: 300 });
    expect(loop).toMatchObject({ reason: "timeout", exitCode: 124 });
    expect(await sandbox.sh("echo $KEPT")).toMatchObject({ stdout: "4\n", shellRestarted: false });
  });

  test("a shell that ignores every request to stop and loops is replaced", async () => {
    expect(
      await sandbox.sh("trap '' INT 61 62; while :; do :; done", { timeoutMs: 1_500 }),
    ).toMatchObject({
      reason: "timeout",
    });
    expect(await sandbox.sh("echo new")).toMatchObject({ stdout: "new\n", shellRestarted: true });
  });

  test("silence ends a command with an idle timeout, output keeps it running", async () => {
    expect(await sandbox.sh("echo a; sleep 1000", { idleTimeoutMs: 1_500 })).toMatchObject({
      reason: "idle_timeout",
      exitCode: 124,
      stdout: "a\n",
    });
    const busy = await sandbox.sh("for i in 1 2 3 4 5 6; do sleep 0.5; echo $i; done", {
      idleTimeoutMs: 2_000,
    });
    expect(busy).toMatchObject({ reason: "exited", stdout: "1\n2\n3\n4\n5\n6\n" });
  });

  test("output that looks like our own records is only output", async () => {
    const text = "printf 'exit 0 /etc\\0'; printf '__SANDKASTEN_END__:x:0:/\\n'; false";
    expect(await sandbox.sh(text)).toMatchObject({
      exitCode: 1,
      stdout: "exit 0 /etc\0__SANDKASTEN_END__:x:0:/\n",
    });
  });

  test("a directory with a colon, a newline or a space is reported correctly", async () => {
    const odd = "/tmp/a:b\nc d";
    const { cwd } = await sandbox.sh(`mkdir -p '${odd}'; cd '${odd}'`);
    expect(cwd).toBe(odd);
    expect((await sandbox.sh("exit 0")).cwd).toBe(odd);
    expect((await sandbox.sh("pwd; cd /tmp")).stdout).toBe(`${odd}\n`);
  });

  test("cwd and env of a command apply to it only", async () => {
    await sandbox.sh("cd /tmp; GREETING=before");
    const first = await sandbox.sh("pwd; echo $GREETING", {
      cwd: "/",
      env: { GREETING: "it's $HOME" },
    });
    expect(first.stdout).toBe("/\nit's $HOME\n");
    expect(first.cwd).toBe("/tmp");
    expect((await sandbox.sh("pwd; echo $GREETING")).stdout).toBe("/tmp\nbefore\n");
    const missing = await sandbox.sh("echo not run", { cwd: "/nowhere" });
    expect(missing).toMatchObject({ stdout: "" });
    expect(missing.exitCode).not.toBe(0);
  });

  test("a relative cwd is in the workspace, and - is an ordinary directory", async () => {
    await sandbox.sh("mkdir -p /workspace/sub /workspace/-; cd /tmp; cd() { :; }");
    expect((await sandbox.sh("pwd", { cwd: "sub" })).stdout).toBe("/workspace/sub\n");
    expect((await sandbox.sh("pwd", { cwd: "-" })).stdout).toBe("/workspace/-\n");
    expect((await sandbox.sh("unset -f cd; pwd")).stdout).toBe("/tmp\n");
  });

  test("$? is the status of the previous command", async () => {
    await sandbox.sh("( exit 7 )");
    expect((await sandbox.sh("echo $?")).stdout).toBe("7\n");
    expect((await sandbox.sh("echo $?")).stdout).toBe("0\n");
  });

  test.runIf(shell === "bash")("DEBUG and ERR traps run for the command alone", async () => {
    await sandbox.sh("trap 'echo debug' DEBUG; trap 'echo error $?' ERR");
    const failed = await sandbox.sh("( exit 3 ); true");
    expect(failed.stdout).toBe("debug\nerror 3\ndebug\n");
    // The code of the ERR trap is debugged too.
    expect((await sandbox.sh("false")).stdout).toBe("debug\ndebug\nerror 1\n");
    expect((await sandbox.sh("trap - DEBUG; trap -p ERR")).stdout).toBe(
      "debug\ntrap -- 'echo error $?' ERR\n",
    );
    await sandbox.sh("trap - ERR");
    expect((await sandbox.sh("false")).stdout).toBe("");
  });

  test("variables are exported only by the code itself", async () => {
    await sandbox.sh("set -a; OWN=1");
    expect((await sandbox.sh("env; set +a")).stdout).toMatch(/^OWN=1$/mu);
    await sandbox.sh("set -a");
    expect((await sandbox.sh("env")).stdout).not.toMatch(/PROMPT|LINENO|sandkasten\//u);
    await sandbox.sh("set +a; unset OWN");
  });

  test("set -x and errors show only the command", async () => {
    const traced = await sandbox.sh("set -x; true here; no-such-program");
    expect(traced.stderr).toContain("+ true here\n");
    // Aborting a command half-way does not disable it.
    await sandbox.sh("kill -INT $$");
    const next = await sandbox.sh("true there; set +x");
    expect(next.stderr).toContain("+ true there\n");
    for (const text of [traced.stderr, next.stderr])
      expect(text.replace(/^\/bin\/sh: (\d+: )?eval: /gmu, "")).not.toMatch(
        /sandkasten|printf|eval|exec|PROMPT|command (?!not)/u,
      );
  });

  test("the variables of a shell do not include the runner's", async () => {
    for (const before of ["true", "false"]) {
      await sandbox.sh(before);
      expect((await sandbox.sh("set")).stdout).not.toMatch(/run\/sandkasten|printf/u);
    }
    await sandbox.sh("set one two; false");
    expect((await sandbox.sh("echo $? $*")).stdout).toBe("1 one two\n");
    await sandbox.sh("set --");
  });

  test("set -v shows nothing of the runner's, and stays on", async () => {
    await sandbox.sh("set -v");
    expect((await sandbox.sh("true here")).stderr).not.toMatch(/eval|set/u);
    const { stdout, stderr } = await sandbox.sh("echo $-; set +v");
    expect(stdout).toContain("v");
    expect(stderr).not.toMatch(/eval/u);
  });

  test.runIf(shell === "bash")("the history begins empty", async () => {
    expect((await sandbox.sh("history")).stdout).toBe("");
  });

  test("functions and aliases with names that the runner uses break nothing", async () => {
    await sandbox.sh(
      "command() { :; }; printf() { :; }; alias eval=false exec=false command=false trap=false",
    );
    const { exitCode, stdout } = await sandbox.sh("echo works; ( exit 5 )");
    expect({ exitCode, stdout }).toEqual({ exitCode: 5, stdout: "works\n" });
    await sandbox.sh("unset -f command printf; unalias -a");
  });

  /** What a user can do to a shell without losing it. */
  test.each([
    "command() { :; }; printf() { :; }; read() { :; }; cd() { :; }",
    shell === "bash" ? "set -euo pipefail" : "set -eu",
    "IFS=abcdefghijklmnopqrstuvwxyz0123456789#",
    "readonly IFS OLDPWD REPLY",
    "set -f -C; umask 777",
    "set -v; set +v",
    "exec 0<&- 1>&- 2>&-",
    "exec 3>&- 9>&-",
    "trap 'echo bye' EXIT",
    "trap '' TERM HUP QUIT",
    "(exit 3); f() { return 4; }; f; (exit 0)",
    "mkdir /tmp/gone; cd /tmp/gone; rm -r /tmp/gone",
    ...(shell === "bash"
      ? [
          ".() { :; }; command() { :; }; builtin() { :; }; eval() { :; }",
          "unset() { :; }; command() { :; }; enable() { :; }; trap() { :; }; exec() { :; }",
          "set -o posix",
          "set -o posix; command() { :; }",
          "enable -n eval exec printf trap read set unset cd",
          "enable -n command eval",
          "PS1=prompt; enable -n command eval exec printf read trap",
          "PROMPT_COMMAND='echo prompt'",
          "PROMPT_COMMAND=('echo prompt' 'exit 1')",
          "trap ': debug' DEBUG; shopt -s extdebug",
          "trap 'echo err' ERR; set -E",
          "shopt -u expand_aliases; unset LINENO",
          "set -n",
          "TMOUT=1; PS1='$(exit 1)'",
        ]
      : []),
  ])("%s breaks nothing", async (text) => {
    await freshShell();
    await sandbox.sh("KEPT=8");
    expect(await sandbox.sh(text, { timeoutMs: 20_000 })).toMatchObject({
      reason: "exited",
      exitCode: 0,
    });
    for (let round = 0; round < 2; round += 1)
      expect(await sandbox.sh('echo "$KEPT"', { timeoutMs: 20_000 })).toMatchObject({
        stdout: "8\n",
        stderr: "",
        exitCode: 0,
        shellRestarted: false,
      });
    await freshShell();
  });

  /** What makes a shell unusable, also for a user at a terminal. */
  test.each([
    ...(shell === "dash" ? ["set -n"] : []),
    // busybox loops forever if the descriptors that it saves are closed.
    ...(shell === "busybox" ? ["exec 10>&- 11>&-"] : []),
    ...(shell === "bash"
      ? [
          "trap false DEBUG; shopt -s extdebug",
          "readonly PROMPT_COMMAND",
          "enable -n enable printf",
          "alias case=false",
        ]
      : []),
  ])("after %s a new shell replaces it", async (text) => {
    await freshShell();
    const { reason } = await sandbox.sh(text, { timeoutMs: 20_000 });
    expect(reason).toMatch(/exited|killed/u);
    expect(await sandbox.sh("echo on", { timeoutMs: 20_000 })).toMatchObject({
      stdout: "on\n",
      shellRestarted: true,
    });
  });

  test("a shell without descriptors is replaced, and the next command runs", async () => {
    await sandbox.sh("ulimit -n 5", { timeoutMs: 5_000 });
    expect(await sandbox.sh("echo on; ls /dev/null", { timeoutMs: 5_000 })).toMatchObject({
      exitCode: 0,
      stdout: "on\n/dev/null\n",
      shellRestarted: true,
    });
  });

  test("exec of a program that does not exist is 127, and reports whether the shell is lost", async () => {
    await sandbox.sh("cd /; KEPT=5");
    const lost = shell !== "bash";
    expect(await sandbox.sh("cd /tmp; exec no-such-program")).toMatchObject({
      exitCode: 127,
      reason: "exited",
      cwd: "/tmp",
      shellRestarted: lost,
    });
    expect(await sandbox.sh("pwd; echo $KEPT")).toMatchObject({
      stdout: lost ? "/tmp\n\n" : "/tmp\n5\n",
      shellRestarted: lost,
    });
  });

  test.each([9, 2, 15, 1, 3])(
    "signal %i ends the whole command, and the shell keeps its state",
    async (signal) => {
      for (const text of [
        "KEPT=7; sleep 1000; echo rest; KEPT=rest",
        "KEPT=7; sleep 1000\nKEPT=rest; echo rest",
        "KEPT=7; while :; do :; done; KEPT=rest",
        "KEPT=7; while :; do sleep 1000; KEPT=rest; done",
        "KEPT=7; f() { (sleep 1000); KEPT=rest; }; eval 'f; KEPT=rest'; KEPT=rest",
        "KEPT=7; x=$(sleep 1000; echo a); KEPT=rest",
        "KEPT=7; sleep 1000 | cat; KEPT=rest",
      ]) {
        const execId = newExecId();
        const stream = await sandbox.channel.exec({ kind: "shell", text }, { execId });
        await expect.poll(() => running(text.includes("sleep") ? "sleep 1000" : "")).not.toBe(0);
        expect(await sandbox.channel.signal(execId, signal)).toBeGreaterThan(0);
        let output = "";
        for await (const { bytes, stream: which } of stream)
          if (which === "stdout") output += Buffer.from(bytes).toString();
        expect({ text, output }).toEqual({ text, output: "" });
        expect(await stream.ended).toMatchObject({
          reason: "killed",
          exitCode: 128 + signal,
          signal,
          shellRestarted: false,
        });
        expect((await sandbox.sh("echo $KEPT")).stdout).toBe("7\n");
      }
    },
  );

  test("a list of traps shows only the code's own", async () => {
    await sandbox.sh("exit");
    const lists = [
      "trap",
      "exec 3>&-; trap 2>&1",
      "set -u; eval 'trap'; set +u",
      "x=$(trap); echo $x",
    ];
    for (const text of lists)
      expect(await sandbox.sh(text)).toMatchObject({
        output: expect.stringMatching(/^\s*$/u) as string,
      });
    await sandbox.sh("trap 'echo bye' EXIT; trap 'echo usr' USR1");
    expect((await sandbox.sh("exec 3>&-; trap")).stdout).toMatch(
      /^trap -- 'echo bye' EXIT\ntrap -- 'echo usr' (?:SIG)?USR1\n$/u,
    );
    // A command that lists traps can be ended like others.
    const ended = await sandbox.sh("trap; sleep 1000; echo rest", { timeoutMs: 300 });
    expect(ended).toMatchObject({ reason: "timeout", shellRestarted: false });
    expect(ended.stdout).not.toContain("rest");
    await sandbox.sh("trap - EXIT USR1");
  });

  test("code that traps a signal gets it, in the shell and in a program", async () => {
    for (const [text, expected] of [
      [
        "trap 'echo trapped; END=1' TERM; echo ready; while [ -z $END ]; do sleep 0.05; done; echo after; trap - TERM; unset END",
        "trapped\nafter\n",
      ],
      [
        "sh -c 'trap \"echo tidy; exit 3\" TERM; echo ready; while :; do sleep 0.05; done'; echo no",
        "tidy\n",
      ],
    ] as const) {
      const execId = newExecId();
      const stream = await sandbox.channel.exec({ kind: "shell", text }, { execId });
      let output = "";
      for await (const { bytes, stream: which } of stream) {
        if (output === "") await sandbox.channel.signal(execId, 15);
        if (which === "stdout") output += Buffer.from(bytes).toString();
      }
      expect(output).toBe(`ready\n${expected}`);
    }
    expect((await sandbox.sh("echo on")).shellRestarted).toBe(false);
  });

  test("a user's EXIT trap runs, and the directory is kept", async () => {
    await sandbox.sh("cd /; trap 'echo bye' EXIT");
    const ended = await sandbox.sh("cd /tmp; exit 3");
    expect(ended).toMatchObject({ exitCode: 3, cwd: "/tmp" });
    // Other shells have closed the command's output by then.
    if (shell === "bash") expect(ended.stdout).toBe("bye\n");
    expect((await sandbox.sh("pwd")).stdout).toBe("/tmp\n");
  });

  test("a profile that ends the shell or never ends is skipped, and reported", async () => {
    for (const profile of ["exit 1", "exec sleep 1000", "if then"]) {
      await sandbox.sh(`echo '${profile}' >~/.profile`);
      await sandbox.channel.closeShell("default");
      const { stdout, stderr } = await sandbox.sh("echo works", { timeoutMs: 30_000 });
      expect(stdout).toBe("works\n");
      if (profile !== "if then") expect(stderr).toMatch(/profile/u);
    }
    await sandbox.sh("rm ~/.profile");
    await sandbox.channel.closeShell("default");
  }, 60_000);

  test("commands run one after the other, in their order", async () => {
    const ran = await Promise.all([
      sandbox.sh("sleep 0.3; ORDER=1; echo $ORDER"),
      sandbox.sh("ORDER=${ORDER}2; echo $ORDER"),
      sandbox.sh("ORDER=${ORDER}3; echo $ORDER"),
    ]);
    expect(ran.map(({ stdout }) => stdout)).toEqual(["1\n", "12\n", "123\n"]);
  });

  test("merged output keeps the exact order of the two streams", async () => {
    const lines = Array.from({ length: 200 }, (_, i) => `o${i}\ne${i}\n`).join("");
    const { stdout } = await sandbox.sh(
      "i=0; while [ $i -lt 200 ]; do echo o$i; echo e$i >&2; i=$((i+1)); done",
      { merge: true },
    );
    expect(stdout).toBe(lines);
  });

  test("/dev/stdout and /dev/stderr can be written to", async () => {
    expect(await sandbox.sh("echo a >/dev/stdout; echo b >/dev/stderr")).toMatchObject({
      stdout: "a\n",
      stderr: "b\n",
    });
  });

  test("200 MB of output reach a slow reader byte for byte", async () => {
    const count = 200 * MIB;
    const stream = await sandbox.channel.exec(
      { kind: "shell", text: `yes 0123456789abcde | head -c ${count}` },
      { execId: newExecId() },
    );
    const hash = createHash("sha256");
    let bytesRead = 0;
    let naps = 0;
    for await (const { bytes, offset } of stream) {
      expect(offset).toBe(bytesRead);
      hash.update(bytes);
      bytesRead += bytes.length;
      if (bytesRead > naps * 20 * MIB) {
        naps += 1;
        await sleep(100);
      }
    }
    const expected = createHash("sha256");
    const block = Buffer.from("0123456789abcde\n".repeat(65_536));
    for (let done = 0; done < count; done += block.length) expected.update(block);
    expect(bytesRead).toBe(count);
    expect(hash.digest("hex")).toBe(expected.digest("hex"));
    expect(await stream.ended).toMatchObject({ exitCode: 0, stdoutBytes: count, droppedBytes: 0 });
  });
});

describe("the user of a process", () => {
  test("can be given by id or name, and must exist in the sandbox", async () => {
    await using machine = await SandboxMachine.start();
    const { channel } = await machine.sandbox({ profile: "root" });
    const idOf = async (user: string): Promise<string> => {
      const command = { kind: "process", argv: ["id", "-u"], user } as const;
      const exec = await channel.exec(command, { execId: newExecId() });
      let text = "";
      for await (const { bytes } of exec) text += Buffer.from(bytes).toString();
      return text.trim();
    };
    expect(await idOf("1234:5")).toBe("1234");
    expect(await idOf("root")).toBe("0");
    expect(await idOf("sandbox")).toBe("1000");
    for (const user of ["4294967295", "4294967294", "70000", "0:4294967295", "nobody-here"])
      await expect(idOf(user)).rejects.toMatchObject({ code: "INVALID_REQUEST" });
  });

  test("cannot be another user if code is not root", async () => {
    await using machine = await SandboxMachine.start();
    const { channel } = await machine.sandbox();
    const argv = ["sh", "-c", "id -u; id -g; id -G; echo $HOME; grep CapEff /proc/self/status"];
    const run = async (user?: string): Promise<string> => {
      const command = { kind: "process", argv, ...(user !== undefined && { user }) } as const;
      const exec = await channel.exec(command, { execId: newExecId() });
      let text = "";
      for await (const { bytes } of exec) text += Buffer.from(bytes).toString();
      return text;
    };
    const unnamed = await run();
    expect(unnamed).toMatch(/^1000\n1000\n.*\n.*\nCapEff:\t0+\n$/);
    for (const user of ["sandbox", "1000", "1000:1000", "sandbox:sandbox"])
      expect({ user, printed: await run(user) }).toEqual({ user, printed: unnamed });
    for (const user of ["root", "0", "0:0", "1000:0", "sandbox:root", "1234", "0:1000"])
      await expect(run(user)).rejects.toMatchObject({ code: "PERMISSION_DENIED" });
  });

  test("can be a user with another group in the image", async () => {
    await using machine = await SandboxMachine.start();
    const directory = await mkdtemp(join(tmpdir(), "sandkasten-image-"));
    try {
      const root = join(directory, "root");
      await fillSmallRoot(root, "busybox");
      await mkdir(join(root, "etc"));
      await writeFile(join(root, "etc/passwd"), "someone:x:1000:100::/:/bin/sh\n");
      const image = await importTree(machine.embedded, "test-someone:latest", root);
      const { channel } = await machine.sandbox({ image });
      const run = async (user: string): Promise<number | undefined> => {
        const command = { kind: "process", argv: ["true"], user } as const;
        const { ended } = await channel.exec(command, { execId: newExecId() });
        return (await ended).exitCode;
      };
      expect([await run("someone"), await run("1000"), await run("1000:1000")]).toEqual([0, 0, 0]);
      for (const user of ["1000:100", "someone:100"])
        await expect(run(user)).rejects.toMatchObject({ code: "PERMISSION_DENIED" });
    } finally {
      await rm(directory, { recursive: true, force: true });
    }
  });

  test("has its own home and name, unless the session or the command sets them", async () => {
    await using machine = await SandboxMachine.start();
    const argv = ["sh", "-c", "echo $HOME ${USER-unset} ${LOGNAME-unset}"];
    const whoIn = async (
      { channel }: TestSandbox,
      { user, env }: { readonly user?: string; readonly env?: Record<string, string> },
    ): Promise<string> => {
      const command = { kind: "process", argv, ...(user !== undefined && { user }) } as const;
      const exec = await channel.exec(command, { execId: newExecId(), ...(env && { env }) });
      let text = "";
      for await (const { bytes } of exec) text += Buffer.from(bytes).toString();
      return text.trim();
    };
    const sandbox = await machine.sandbox({ profile: "root" });
    expect(await whoIn(sandbox, {})).toBe("/root root root");
    expect(await whoIn(sandbox, { user: "sandbox" })).toBe("/home/sandbox sandbox sandbox");
    expect(await whoIn(sandbox, { user: "1000:0" })).toBe("/home/sandbox sandbox sandbox");
    expect(await whoIn(sandbox, { user: "root" })).toBe("/root root root");
    expect(await whoIn(sandbox, { user: "1234" })).toBe("/ unset unset");
    const env = { HOME: "/tmp" };
    expect(await whoIn(sandbox, { user: "sandbox", env })).toBe("/tmp sandbox sandbox");
    const own = await machine.sandbox({ profile: "root", env });
    expect(await whoIn(own, { user: "sandbox" })).toBe("/tmp sandbox sandbox");
  });
});

describe("root in the host image", () => {
  let machine: SandboxMachine;
  let sandbox: TestSandbox;

  beforeAll(async () => {
    machine = await SandboxMachine.start();
    sandbox = await machine.sandbox({ profile: "root" });
  });

  afterAll(async () => {
    await machine[Symbol.asyncDispose]();
  });

  test.each([
    ["su sandbox -c 'id -un; id -Gn'", "sandbox\nsandbox\n"],
    ["su - sandbox -c 'echo $HOME; pwd'", "/home/sandbox\n/home/sandbox\n"],
    ["su -c 'id -un'", "root\n"],
    ["runuser -u sandbox -- id -un", "sandbox\n"],
  ])("%s works", async (command, stdout) => {
    expect(await sandbox.sh(command)).toMatchObject({ stdout, stderr: "", exitCode: 0 });
  });

  test("a user who is not root cannot become another user", async () => {
    const { stdout, exitCode } = await sandbox.sh(
      "su sandbox -c 'id -un; su root -c id </dev/null 2>&1'",
    );
    expect(exitCode).not.toBe(0);
    expect(stdout).toMatch(/^sandbox\n/u);
    expect(stdout).not.toContain("uid=");
  });

  test.each(["sh -c", "bash -lc", "su -c", "su - -c"])(
    "%s finds the administrator's programs",
    async (program) => {
      const { stdout } = await sandbox.sh(`${program} 'echo $PATH'`);
      expect(stdout.trim().split(":")).toEqual(
        expect.arrayContaining(["/usr/local/sbin", "/usr/sbin", "/sbin"]),
      );
    },
  );

  test("nothing is added to a session's own PATH", async () => {
    const { run } = await machine.sandbox({ profile: "root", env: { PATH: "/usr/bin:/bin" } });
    expect((await run(["sh", "-c", "echo $PATH"])).stdout).toBe("/usr/bin:/bin\n");
  });
});

describe("the PATH of a sandbox", () => {
  test("reaches the shell, before that of the system's profile and after the user's own", async () => {
    await using machine = await SandboxMachine.start();
    const sandbox = await machine.sandbox({ env: { PATH: "/opt/tools:/usr/bin:/bin" } });
    expect((await sandbox.sh("echo $PATH")).stdout).toMatch(
      /^\/opt\/tools:\/usr\/bin:\/bin(:|\n)/u,
    );
    await sandbox.sh("echo 'PATH=$HOME/own:$PATH' >~/.profile");
    await sandbox.channel.closeShell("default");
    expect((await sandbox.sh("echo $PATH")).stdout).toMatch(/own:\/opt\/tools:/u);
  });
});

describe("an image without a shell", () => {
  test("programs run by their arguments, and a shell command fails with NO_SHELL", async () => {
    await using machine = await SandboxMachine.start();
    const image = await importSmallImage(machine.embedded, "bare");
    const sandbox = await machine.sandbox({ image });
    expect(await sandbox.run(["/bin/busybox", "echo", "hello"])).toMatchObject({
      stdout: "hello\n",
      exitCode: 0,
    });
    await expect(sandbox.sh("echo x")).rejects.toMatchObject({ code: "NO_SHELL" });
    expect((await sandbox.channel.ping()).shell).toBe("none");
  });
});
