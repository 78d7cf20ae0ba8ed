import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { TestDaemon } from "../testing/test-daemon.ts";

let daemon: TestDaemon;
let session: string;
beforeAll(async () => {
  daemon = await TestDaemon.start();
});
beforeEach(async () => {
  session = await daemon.open();
});
afterAll(async () => {
  await daemon[Symbol.asyncDispose]();
});

describe("exec", () => {
  it("runs text in the stateful shell, and several words separately", async () => {
    await daemon.run(["exec", session, "--", "cd /tmp"]);
    expect((await daemon.run(["exec", session, "--", "pwd"])).stdout).toBe("/tmp\n");
    const beside = await daemon.run(["exec", session, "--argv", "--", "pwd"]);
    expect(beside.stdout).toBe("/workspace\n");
  });

  it("accepts options before and after the session, and returns the exit code", async () => {
    const { code, stdout } = await daemon.run([
      "exec",
      "--env",
      "A=1",
      session,
      "--cwd",
      "/tmp",
      "--",
      "printenv A; pwd; exit 9",
    ]);
    expect([code, stdout]).toEqual([9, "1\n/tmp\n"]);
  });

  it("passes Ctrl-C to the command and reports how it ended", async () => {
    const running = daemon.start(["exec", session, "--", "echo up; sleep 60"]);
    await running.seen(/up/);
    running.signal("SIGINT");
    expect((await running.done).code).toBe(130);
    // The session does not belong to this command.
    expect((await daemon.run(["ls"])).stdout).toContain(session);
  });

  it("runs commands in named shells, which can be listed and closed", async () => {
    await daemon.run(["exec", session, "--in-shell", "build", "--", "cd", "/tmp"]);
    expect((await daemon.run(["exec", session, "--", "pwd"])).stdout).toBe("/workspace\n");
    expect((await daemon.run(["exec", "--in-shell", "build", session, "--", "pwd"])).stdout).toBe(
      "/tmp\n",
    );
    const { stdout } = await daemon.run(["shells", session]);
    expect(stdout).toMatch(/^build\tsh\t-\t0\t\/tmp$/m);
    await daemon.run(["shells", session, "--close", "build"]);
    expect((await daemon.run(["shells", session])).stdout).not.toContain("build");
    const missing = await daemon.run(["shells", session, "--close", "build"]);
    expect(missing.code).toBe(1);
  });

  it("cancels a command by its id", async () => {
    const { stdout: id } = await daemon.run(["exec", "-d", session, "--", "sleep 60"]);
    const cancelled = await daemon.run(["cancel", session, id.trimEnd()]);
    expect([cancelled.code, cancelled.stdout]).toEqual([0, "cancelled\n"]);
  });

  it("prints the id of a detached command", async () => {
    const started = await daemon.run(["exec", "-d", session, "--", "echo later"]);
    const execId = started.stdout.trimEnd();
    const followed = await daemon.run(["logs", "--follow", session, execId]);
    expect(followed.stdout).toBe("later\n");
  });

  it("says what to do about an unknown session", async () => {
    const { code, stderr } = await daemon.run(["exec", "missing", "--", "true"]);
    expect([code, stderr]).toEqual([
      1,
      expect.stringMatching(/missing.*\n→ List sessions with `sandkasten ls`/),
    ]);
  });
});

describe("ps", () => {
  it("lists commands newest first, even of an ended session", async () => {
    await daemon.run(["exec", session, "--", "echo one"]);
    await daemon.run(["exec", session, "--", "exit 4"]);
    await daemon.run(["rm", session]);
    const { stdout } = await daemon.run(["ps", session]);
    const lines = stdout
      .trimEnd()
      .split("\n")
      .map((line) => line.split("\t"));
    expect(lines.map((fields) => [fields[1], fields.at(-1)])).toEqual([
      ["exit 4", "exit 4"],
      ["exit 0", "echo one"],
    ]);
    const limited = await daemon.run(["ps", session, "--json", "-n", "1"]);
    expect(JSON.parse(limited.stdout)).toMatchObject([{ exitCode: 4 }]);
  });

  it("shows only what runs with --running", async () => {
    await daemon.run(["exec", session, "--", "true"]);
    const { stdout: id } = await daemon.run(["exec", "-d", session, "--", "sleep 60"]);
    const { stdout } = await daemon.run(["ps", "--running", session]);
    expect(stdout.split("\t")[0]).toBe(id.trimEnd());
    expect(stdout.trimEnd().split("\n")).toHaveLength(1);
  });

  it("shows control characters of a command as text", async () => {
    await daemon.run(["exec", session, "--", "echo '\u001b[2J'"]);
    for (const columns of [undefined, 100]) {
      const { stdout } = await daemon.run(["ps", session], {
        env: { NO_COLOR: "1" },
        ...(columns !== undefined && { columns }),
      });
      expect(stdout).toContain("\\x1b[2J");
      expect(stdout).not.toContain("\u001b[2J");
    }
  });
});

describe("logs", () => {
  it("shows all output in order and separately, even of an ended session", async () => {
    await daemon.run(["exec", session, "--", "echo one; echo oops >&2"]);
    await daemon.run(["exec", session, "--", "echo two"]);
    await daemon.run(["rm", session]);
    const { stdout, stderr } = await daemon.run(["logs", session]);
    expect([stdout, stderr]).toEqual(["one\ntwo\n", "oops\n"]);
  });

  it("follows background processes of a command", async () => {
    await daemon.run(["exec", session, "--", "sleep 0.2 && echo late & echo own"]);
    const [, id = ""] = /(exe_\w+)/.exec((await daemon.run(["ps", session])).stdout) ?? [];
    expect((await daemon.run(["logs", "-f", session, id])).stdout).toBe("own\nlate\n");
  });

  it("shows the output so far of a running command, without waiting", async () => {
    const { stdout: id } = await daemon.run(["exec", "-d", session, "--", "echo so far; sleep 60"]);
    const followed = daemon.start(["logs", session, id.trimEnd(), "--follow"]);
    await followed.seen(/so far/);
    followed.signal("SIGINT");
    expect((await followed.done).code).toBe(130);
    const { stdout, code } = await daemon.run(["logs", session, id.trimEnd()]);
    expect([stdout, code]).toEqual(["so far\n", 0]);
  });

  it("follows all commands of a session until its end", async () => {
    const following = daemon.start(["logs", "--follow", session]);
    await daemon.run(["exec", session, "--", "echo one"]);
    await following.seen(/one/);
    await daemon.run(["exec", session, "--", "echo two"]);
    await following.seen(/two/);
    await daemon.run(["rm", session]);
    expect(await following.done).toMatchObject({ code: 0, stdout: "one\ntwo\n" });
  });

  it("prints JSON lines, with output that is not UTF-8 also as base64", async () => {
    await daemon.run(["exec", session, "--", "cat"], { stdin: Buffer.from([0xff, 0x0a]) });
    const { stdout } = await daemon.run(["logs", "--json", session]);
    expect(JSON.parse(stdout)).toMatchObject({ type: "output", stream: "stdout", base64: "/wo=" });
  });
});
