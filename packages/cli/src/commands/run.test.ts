import { PassThrough } from "node:stream";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { TestDaemon } from "../testing/test-daemon.ts";

let daemon: TestDaemon;
beforeAll(async () => {
  daemon = await TestDaemon.start();
});
afterAll(async () => {
  await daemon[Symbol.asyncDispose]();
});

async function living(): Promise<string> {
  return (await daemon.run(["ls"])).stdout;
}

describe("run", () => {
  it("separates stdout and stderr, returns the exit code and leaves no session", async () => {
    const args = ["run", "--", "echo out; echo err >&2; exit 7"];
    const { code, stdout, stderr } = await daemon.run(args);
    expect([code, stdout, stderr]).toEqual([7, "out\n", "err\n"]);
    expect(await living()).toBe("");
  });

  it("runs several words as a program", async () => {
    const { stdout } = await daemon.run(["run", "--", "echo", "a  b", "$HOME"]);
    expect(stdout).toBe("a  b $HOME\n");
  });

  it("passes variables and piped input to the command", async () => {
    const options = { stdin: "from the pipe", env: { HERE: "local" } };
    expect((await daemon.run(["run", "--", "cat"], options)).stdout).toBe("from the pipe");
    const args = ["run", "-e", "A=b=c", "-e", "HERE", "--", "printenv A && printenv HERE"];
    expect((await daemon.run(args, options)).stdout).toBe("b=c\nlocal\n");
  });

  it("passes bytes through unchanged", async () => {
    const bytes = Buffer.from(Array.from({ length: 512 }, (_, i) => i % 256));
    const { stdoutBytes } = await daemon.run(["run", "--", "cat"], { stdin: bytes });
    expect(stdoutBytes.equals(bytes)).toBe(true);
  });

  it("passes no input with --no-stdin", async () => {
    const { stdout, code } = await daemon.run(["run", "--no-stdin", "--", "cat"], { stdin: "x" });
    expect([stdout, code]).toEqual(["", 0]);
  });

  it("does not wait for input after the command has ended", async () => {
    const endless = new PassThrough();
    const { stdout, code } = await daemon.run(["run", "--", "echo done"], { stdin: endless });
    expect([stdout, code]).toEqual(["done\n", 0]);
  });

  it("exits with 124 after a timeout, and says so", async () => {
    const { code, stderr } = await daemon.run(["run", "--timeout", "50ms", "--", "sleep 60"]);
    expect([code, stderr]).toEqual([
      124,
      expect.stringMatching(/exceeded its timeout.*\n.*--timeout/),
    ]);
    expect(await living()).toBe("");
  });

  it("destroys the session on Ctrl-C and exits with 130", async () => {
    const running = daemon.start(["run", "--", "echo up; sleep 60"]);
    await running.seen(/up/);
    running.signal("SIGINT");
    const { code, stderr } = await running.done;
    expect([code, stderr]).toEqual([130, ""]);
    expect(await living()).toBe("");
  });

  it("destroys the session if Ctrl-C arrives while it is being created", async () => {
    const running = daemon.start(["run", "--", "sleep 60"]);
    running.signal("SIGINT");
    expect((await running.done).code).toBe(130);
    expect(await living()).toBe("");
  });

  it("prints one JSON object per event with --json", async () => {
    const { stdout, code } = await daemon.run(["run", "--json", "--", "echo hi; exit 3"]);
    const events = stdout
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as unknown);
    expect(events).toEqual([
      { type: "started", sessionId: expect.any(String), execId: expect.any(String) },
      expect.objectContaining({ type: "output", stream: "stdout", text: "hi\n" }),
      expect.objectContaining({ type: "ended", exitCode: 3, endReason: "exited" }),
    ]);
    expect(code).toBe(3);
  });

  it("leaves options after the first word to the command", async () => {
    const args = ["run", "-e", "A=b", "--timeout", "5s", "echo", "-la", "--json", "--"];
    const { code, stdout } = await daemon.run(args);
    expect([code, stdout]).toEqual([0, "-la --json --\n"]);
  });

  it("refuses an unknown option before the command", async () => {
    const { code, stderr } = await daemon.run(["run", "--frob", "ls"]);
    expect([code, stderr]).toEqual([2, expect.stringContaining("--frob")]);
  });

  it("says that host replaces an image that is not available", async () => {
    daemon.http.core.images.substitutes.set("python", "host");
    const { stdout, stderr } = await daemon.run(["run", "--image", "python", "echo out"]);
    expect([stdout, stderr]).toEqual([
      "out\n",
      expect.stringMatching(
        /^! The image python is not available locally, so the session uses host/,
      ),
    ]);
  });
});
