/** What agents expect of commands, with the SDK, a real daemon and real sandboxes. */
import { SandboxClient } from "@sandkasten/sdk";
import type { OutputChunk, Session } from "@sandkasten/sdk";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { TestDaemon } from "../support/test-daemon.ts";

let daemon: TestDaemon;
let session: Session;
beforeAll(async () => {
  daemon = await TestDaemon.start();
  session = await connect().createSession();
});
afterAll(async () => {
  await daemon[Symbol.asyncDispose]();
});

const connect = () => new SandboxClient({ baseUrl: daemon.url, apiKey: daemon.apiKey });
const textOf = (chunks: readonly OutputChunk[]): string => chunks.map(({ text }) => text).join("");

describe("a wait that does not end the command", () => {
  it("responds in time, or when the output matches, and the command continues", async () => {
    const early = await session.exec(
      "echo so far; until [ -e go ]; do sleep 0.02; done; echo end",
      {
        waitMs: 300,
      },
    );
    expect(early).toMatchObject({ status: "running", exitCode: null, output: "so far\n" });
    const exec = session.getExec(early.execId);
    await session.write("go", "");
    const matched = await exec.wait({ until: { pattern: "^(en)d" } });
    expect(matched).toMatchObject({ matched: true, match: { text: "end", groups: ["en"] } });
    expect(await exec.wait()).toMatchObject({ status: "done", exitCode: 0 });
    await session.files.remove("go");
  });

  it("waits for a service in the background to be ready", async () => {
    const { execId, ...ready } = await session.exec(
      "(sleep 0.2; echo ready on 8000; sleep 1000) &",
      {
        until: { pattern: String.raw`ready on (\d+)` },
      },
    );
    expect(ready).toMatchObject({ status: "done", background: true, matched: true });
    expect(ready.match?.groups).toEqual(["8000"]);
    await session.getExec(execId).signal("KILL", { tree: true });
  });
});

describe("a signal", () => {
  it.each([false, true])("reaches a process that has just started (tree: %s)", async (tree) => {
    for (let n = 0; n < 40; n++) {
      const { execId } = await session.exec(["sleep", "1000"], { waitMs: 1 });
      const exec = session.getExec(execId);
      expect(await exec.signal("TERM", { tree })).toBe(1);
      expect(await exec.wait()).toMatchObject({ endReason: "killed", exitCode: 143 });
    }
  });
});

describe("a shell with a terminal", () => {
  it("keeps its state, and its commands see the terminal, also over a WebSocket", async () => {
    await using term = session.shell("term");
    const first = await term.exec("test -t 0 && test -t 1 && test -t 2 && cd /tmp && NAME=kept", {
      pty: { rows: 30, cols: 100 },
    });
    expect(first).toMatchObject({ exitCode: 0, cwd: "/tmp", shell: "term" });
    expect(await term.exec("echo $NAME $PWD; stty size; echo oops >&2; false")).toMatchObject({
      exitCode: 1,
      stdout: "kept /tmp\r\n30 100\r\noops\r\n",
      stderr: "",
    });
    expect((await term.exec("echo $?")).stdout).toBe("1\r\n");
    expect((await term.exec("echo $TERM; export TERM=vt220")).stdout).toBe("xterm-256color\r\n");
    expect((await term.exec("printenv TERM; exit")).stdout).toBe("vt220\r\n");
    // A new shell on the same terminal.
    expect((await term.exec("printenv TERM; NAME=kept")).stdout).toBe("xterm-256color\r\n");
    const size = { rows: 24, cols: 80 };
    const { stdout } = await session.exec(["printenv", "TERM"], { pty: size });
    expect(stdout).toBe("xterm-256color\r\n");

    const cancelled = await term.start("sleep 1000");
    await cancelled.cancel();
    expect(await cancelled.wait()).toMatchObject({ endReason: "cancelled" });

    using pty = await session.pty({
      shell: "term",
      cmd: 'read -p "name? " x; echo "hello $x $NAME"',
    });
    let shown = "";
    const decoder = new TextDecoder();
    for await (const bytes of pty) {
      shown += decoder.decode(bytes, { stream: true });
      if (shown.endsWith("name? ")) pty.write("you\n");
    }
    expect(shown).toContain("hello you kept");
    expect((await pty.exited).exitCode).toBe(0);
    expect((await term.exec("echo $x")).stdout).toBe("you\r\n");
  });

  it("separates the input and output of consecutive commands", async () => {
    await using term = session.shell("inputs");
    const pty = { rows: 24, cols: 80 };
    const first = await term.exec('read x; echo "[$x]"', { pty, stdin: "one\ntwo\n" });
    expect(first.stdout).toContain("[one]\r\n");
    const second = await term.start('read x; echo "[$x]"', { stdinOpen: true });
    await second.writeStdin("three\n");
    expect((await second.wait({ timeoutMs: 10_000 })).stdout).toContain("[three]\r\n");
  });

  it("needs a name, so the default shell keeps separate streams", async () => {
    await expect(session.exec("true", { pty: { rows: 1, cols: 1 } })).rejects.toMatchObject({
      code: "INVALID_REQUEST",
    });
  });
});

describe("named shells", () => {
  it("run in parallel, each with separate state, and can be closed", async () => {
    await using build = session.shell("build");
    await build.exec("cd /tmp; NAME=build");
    const busy = await build.start(
      "echo $NAME $PWD; until [ -e /workspace/go ]; do sleep 0.02; done",
    );
    const beside = await session.exec("echo ${NAME:-none} $PWD; touch /workspace/go");
    expect(beside).toMatchObject({ stdout: "none /workspace\n", shell: "default" });
    expect(await busy.wait()).toMatchObject({ stdout: "build /tmp\n", exitCode: 0 });
    expect((await session.shells()).map(({ name }) => name)).toEqual(["default", "build"]);
    const running = await build.start("sleep 1000");
    await build.close();
    expect(await running.wait()).toMatchObject({ endReason: "cancelled" });
    expect((await build.exec("echo ${NAME:-new}")).stdout).toBe("new\n");
    await session.files.remove("go");
  });
});

describe("a cancelled command", () => {
  it("ends with everything that it started, and its shell continues with its state", async () => {
    await session.exec("KEPT=1; sleep 4001 &");
    const exec = await session.start("echo begun; setsid sleep 4002 & sleep 4003");
    await exec.read({ waitMs: 10_000 });
    expect(await exec.cancel()).toBe(true);
    expect(await exec.wait()).toMatchObject({ endReason: "cancelled", stdout: "begun\n" });
    const left =
      "for p in /proc/[0-9]*/cmdline; do tr '\\0' ' ' <$p; echo; done | grep -c '^sleep 400'";
    const after = await session.exec(`echo $KEPT; ${left}`);
    expect(after).toMatchObject({ stdout: "1\n1\n", shellRestarted: false });
  });

  it("is one whose caller aborts with this option", async () => {
    const caller = new AbortController();
    const running = session.exec("touch begun; sleep 1000", {
      signal: caller.signal,
      onAbort: "cancel",
    });
    await expect
      .poll(
        () =>
          session.read("begun").then(
            () => true,
            () => false,
          ),
        { timeout: 10_000 },
      )
      .toBe(true);
    caller.abort();
    await expect(running).rejects.toThrow("abort");
    expect((await session.exec("echo next")).stdout).toBe("next\n");
    const [, cancelled] = await Array.fromAsync(session.execs());
    expect(cancelled).toMatchObject({ endReason: "cancelled" });
    await session.files.remove("begun");
  });
});

describe("a command that leaves a service in the background", () => {
  const SERVICE = "(echo up; until [ -e stop ]; do sleep 0.02; done; echo down >&2) & echo started";

  it("is none whose program cannot be run", { timeout: 60_000 }, async () => {
    for (let run = 0; run < 40; run++)
      for (const cmd of [["/nonexistent"], ["/etc/passwd"]])
        expect(await session.exec(cmd)).toMatchObject({
          background: false,
          stderr: expect.stringMatching(/^cannot run: exec [^(]*\n$/),
        });
  });

  it("ends at once, and its log can be followed until the service has ended", async () => {
    const { execId, background, status, stdout } = await session.exec(SERVICE);
    expect({ status, background }).toEqual({ status: "done", background: true });
    expect(stdout).toContain("started\n");
    const exec = session.getExec(execId);
    const seen: OutputChunk[] = [];
    for await (const chunk of exec.follow({ until: "closed" })) {
      seen.push(chunk);
      if (textOf(seen).includes("up\n")) await session.write("stop", "");
    }
    expect(textOf(seen).split("\n").toSorted().join(" ").trim()).toBe("down started up");
    await session.files.remove("stop");
    expect(await exec.info()).toMatchObject({ background: false, exitCode: 0 });
  });

  it("shows late output to callers that read by cursor, wait, or choose a stream", async () => {
    const { execId } = await session.exec(SERVICE);
    const exec = session.getExec(execId);
    await session.write("stop", "");
    const pages: OutputChunk[] = [];
    for (let cursor = 0, closed = false; !closed;) {
      const page = await exec.read({ cursor, waitMs: 10_000 });
      pages.push(...page.chunks);
      ({ nextCursor: cursor, closed } = page);
    }
    expect(textOf(pages)).toMatch(/started\n/);
    expect(textOf(pages)).toMatch(/down\n$/);
    const { output, stderr } = await exec.wait();
    expect(output).toBe(textOf(pages));
    expect(stderr).toBe("down\n");
    const [errors] = await Array.fromAsync(exec.follow({ stream: "stderr" }));
    expect(errors).toMatchObject({ text: "down\n", skippedBytes: 0 });
    const page = await exec.read({ stream: "stdout" });
    expect(textOf(page.chunks)).toBe(textOf(pages.filter(({ stream }) => stream === "stdout")));
    await session.files.remove("stop");
  });

  it("is still recorded after a restart of the daemon", async () => {
    const { execId } = await session.exec(SERVICE);
    await daemon.kill();
    await daemon.run();
    session = await connect().getSession(session.id);
    const exec = session.getExec(execId);
    expect(await exec.wait()).toMatchObject({ background: true });
    await session.write("stop", "");
    const seen = await Array.fromAsync(exec.follow({ until: "closed" }));
    expect(textOf(seen)).toMatch(/down\n$/);
    await session.files.remove("stop");
  });
});
