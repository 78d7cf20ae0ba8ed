/** Calls of broken and hostile models, to tools with a real daemon. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type TestAgent, ToolFixture } from "./testing/tool-fixture.ts";

let fixture: ToolFixture;
let code: TestAgent;
let compute: TestAgent;
beforeAll(async () => {
  fixture = await ToolFixture.start({ settings: { DEFAULTS_DISK_LIMIT_MB: "256" } });
  code = fixture.agent({ mode: "code" });
  compute = fixture.agent("python");
});
afterAll(async () => {
  await fixture[Symbol.asyncDispose]();
});

describe("10 MB arguments", () => {
  const large = "x".repeat(10_000_000);

  it("are refused if they cannot work, with what to do instead", async () => {
    const refused = [{ cmd: `echo ${large}` }, { cmd: ["echo", large] }, { command: large }];
    for (const input of refused)
      await expect(code.call("sandbox_exec", input)).rejects.toMatchObject({
        code: "INVALID_INPUT",
        message: expect.stringContaining("Write it to a file") as string,
      });
    for (const input of [
      { cmd: "true", cwd: large },
      { cmd: "true", sandbox_id: large },
    ])
      await expect(code.call("sandbox_exec", input)).rejects.toMatchObject({ name: "ToolError" });
    await expect(code.call("sandbox_fs_read", { path: large })).rejects.toMatchObject({
      code: "INVALID_INPUT",
    });
    await expect(
      code.call("sandbox_exec", { cmd: ["true"], env: { LARGE: large } }),
    ).rejects.toMatchObject({ name: "ToolError" });
    const alive = await code.call("sandbox_exec", { cmd: "echo alive" });
    expect(alive.stdout).toBe("alive\n");
  });

  it("produce errors that a model can read", async () => {
    const error = await code.call("sandbox_exec", { cmd: "true", sandbox_id: large }).then(
      () => "",
      ({ message }: Error) => message,
    );
    expect(error.length).toBeLessThan(1000);
    const unknown = await code.call("sandbox_exec", { cmd: "true", [large]: 1 }).then(
      () => "",
      ({ message }: Error) => message,
    );
    expect(unknown.length).toBeLessThan(1000);
  });

  it("work as files and programs", async () => {
    await code.call("sandbox_fs_write", { path: "large.txt", contents: large });
    const counted = await code.call("sandbox_exec", { cmd: "wc -c < large.txt" });
    expect(counted.stdout).toBe("10000000\n");
    const program = { code: `text = "${large}"\nprint(len(text))` };
    expect((await compute.call("sandbox_run", program)).stdout).toBe("10000000\n");
    const stdin = { code: "import sys; print(len(sys.stdin.read()))", files: { a: large } };
    expect(await compute.call("sandbox_run", stdin)).toMatchObject({ ok: true, stdout: "0\n" });
  });
});

describe("values of the wrong type", () => {
  it.each([
    ["sandbox_exec", { cmd: 5 }],
    ["sandbox_exec", { cmd: [] }],
    ["sandbox_exec", { cmd: "" }],
    ["sandbox_exec", { cmd: ["ls", 1] }],
    ["sandbox_exec", { cmd: { run: "ls" } }],
    ["sandbox_exec", { cmd: "ls", env: { A: 1 } }],
    ["sandbox_exec", { cmd: "ls", env: ["A=1"] }],
    ["sandbox_exec", { cmd: "ls", timeout_seconds: "10" }],
    ["sandbox_exec", { cmd: "ls", timeout_seconds: -1 }],
    ["sandbox_exec", { cmd: "ls", timeout_seconds: Number.NaN }],
    ["sandbox_exec", { cmd: "ls", sandbox_id: 7 }],
    ["sandbox_exec", { cmd: "ls", stream: "yes" }],
    ["sandbox_exec", {}],
    ["sandbox_exec", null],
    ["sandbox_exec", "ls"],
    ["sandbox_exec", ["ls"]],
    ["sandbox_exec", 5],
    ["sandbox_exec_read", { exec_id: "x", since_seq: -1 }],
    ["sandbox_exec_read", { exec_id: "x", since_seq: 1.5 }],
    ["sandbox_fs_write", { path: "a", contents: { text: "x" } }],
    ["sandbox_fs_write", { path: "", contents: "x" }],
    ["sandbox_fs_write", { path: "a", contents: "x", mode: "rwx" }],
    ["sandbox_fs_write", { path: "a", contents: "x", mode: 644 }],
    ["sandbox_fs_read", { path: "a\0b" }],
    ["sandbox_fs_read", { path: ["a"] }],
    ["sandbox_open", { image: 5 }],
    ["sandbox_open", { session_key: "no spaces" }],
  ] as const)("%s %j is an error that names the field", async (tool, input) => {
    const error = await code.call(tool, input).then(
      () => undefined,
      (failure: Error & { code: string }) => failure,
    );
    expect(error).toMatchObject({ name: "ToolError" });
    expect(["INVALID_INPUT", "SANDBOX_NOT_FOUND"]).toContain(error?.code);
    expect(error?.message.length).toBeGreaterThan(20);
  });

  it("are reported with what is expected", async () => {
    await expect(code.call("sandbox_exec", { cmd: "ls", timeout_seconds: "10" })).rejects.toThrow(
      "sandbox_exec: `timeout_seconds`: expected number, received string",
    );
    await expect(code.call("sandbox_exec", { cmd: "ls", timeout: 10 })).rejects.toThrow(
      /`timeout` is not a known name; the nearest known name is `timeout_ms`/,
    );
    await expect(code.call("sandbox_exec", "ls")).rejects.toThrow("expected object");
    await expect(code.call("sandbox_exec", {})).rejects.toThrow("sandbox_exec: `cmd`: is missing");
  });
});

describe("both spellings at once", () => {
  it.each([
    ["sandbox_exec", { cmd: "ls", command: "pwd" }, "`cmd` and `command`"],
    ["sandbox_exec", { cmd: "ls", command: ["ls"] }, "`cmd` and `command`"],
    ["sandbox_exec", { cmd: "ls", cwd: "/tmp", workdir: "/" }, "`cwd` and `workdir`"],
    [
      "sandbox_exec",
      { cmd: "ls", sandbox_id: "a", session_id: "b" },
      "`sandbox_id` and `session_id`",
    ],
    ["sandbox_fs_list", { session_id: "a", id: "b" }, "`session_id` and `id`"],
    ["sandbox_fs_write", { path: "a", text: "a", contents: "b" }, "`contents` and `text`"],
    [
      "sandbox_fs_write",
      { path: "a", content: "YQ==", contents: "YQ==", encoding: "base64" },
      "`contents` and `content`",
    ],
  ] as const)("%s %j are refused by name if they differ", async (tool, input, names) => {
    await expect(code.call(tool, input)).rejects.toMatchObject({
      code: "INVALID_INPUT",
      message: expect.stringContaining(`${names} are two names for the same thing`) as string,
    });
  });

  it("are accepted if they are the same, and timeout_ms takes precedence over timeout_seconds", async () => {
    const same = { cmd: ["pwd"], command: ["pwd"], cwd: "/tmp", workdir: "/tmp" };
    expect((await code.call("sandbox_exec", same)).stdout).toBe("/tmp\n");
    const timeouts = { cmd: "sleep 1000", timeout_ms: 300, timeout_seconds: 60 };
    const result = await code.call("sandbox_exec", timeouts);
    expect(result.error).toContain("timeout of 0.3 s");
  });
});
