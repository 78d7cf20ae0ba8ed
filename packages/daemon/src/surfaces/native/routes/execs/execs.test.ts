import { SandboxError } from "@sandkasten/protocol";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { HttpFixture } from "../../../testing/http-fixture.ts";
import type { Answer } from "../../../testing/http-fixture.ts";

let http: HttpFixture;
let id: string;
beforeAll(async () => {
  http = await HttpFixture.start();
  id = await http.createSession();
});
afterAll(async () => await http[Symbol.asyncDispose]());

async function run(body: object, headers: Record<string, string> = {}): Promise<Answer> {
  return await http.call(`/v1/sessions/${id}/exec`, { body, headers });
}

async function start(body: object): Promise<string> {
  const answer = await http.call(`/v1/sessions/${id}/execs`, { body });
  expect(answer.status).toBe(202);
  return answer.json.exec_id as string;
}

async function on(exec: string, act: string, body?: object): Promise<Answer> {
  const method = body === undefined ? "GET" : "POST";
  return await http.call(`/v1/sessions/${id}/execs/${exec}${act}`, {
    method,
    ...(body && { body }),
  });
}

describe("POST exec", () => {
  it("returns the complete result", async () => {
    const answer = await run({ cmd: "echo out; echo err >&2; false" });
    expect(answer.status).toBe(200);
    expect(answer.json).toMatchObject({
      exec_id: expect.any(String) as string,
      session_id: id,
      status: "done",
      exit_code: 1,
      end_reason: "exited",
      timed_out: false,
      cwd: "/workspace",
      output: "out\nerr\n",
      stdout: "out\n",
      stderr: "err\n",
      truncated: false,
      output_bytes: 8,
    });
  });

  it("returns the directory of the shell, even for programs that do not report it", async () => {
    await run({ cmd: "cd /tmp" });
    expect((await run({ cmd: "pwd" })).json).toMatchObject({ output: "/tmp\n", cwd: "/tmp" });
    expect((await run({ cmd: ["echo", "a b", "$X"] })).json).toMatchObject({
      output: "a b $X\n",
      cwd: "/tmp",
    });
    await run({ cmd: "cd /workspace" });
  });

  it.each([
    [{ command: "echo a" }, "a\n"],
    [{ cmd: "echo a", command: "echo a" }, "a\n"],
    [{ cmd: ["echo", "a  b"], stateful: true }, "a  b"],
    [{ cmd: ["pwd"], workdir: "/tmp" }, "/tmp\n"],
    [{ cmd: ["cat"], stdin: "typed" }, "typed"],
    [{ cmd: ["cat"], stdin_base64: "dHlwZWQ=" }, "typed"],
    [{ cmd: ["printenv", "A"], env: { A: "b" } }, "b\n"],
  ])("accepts %j", async (body, output) => {
    const answer = await run(body);
    expect(answer.status).toBe(200);
    expect(answer.json.output).toContain(output);
  });

  it.each([
    [{ cmd: "echo a  b" }, "echo a  b"],
    [{ cmd: "echo a  b", stateful: false }, "echo a  b"],
    [{ cmd: "echo a", stateful: false, user: "1000" }, "echo a"],
    [{ cmd: ["echo", "it's"], stateful: true }, ["echo", "it's"]],
    [{ cmd: ["echo", "a b"] }, ["echo", "a b"]],
  ])("shows the command %j as it was requested", async (body, cmd) => {
    const { json } = await run(body);
    expect(json.cmd).toEqual(cmd);
    expect((await on(json.exec_id as string, "")).json.cmd).toEqual(cmd);
  });

  it.each([
    [{}, 60_000, false],
    [{ timeout_ms: 0 }, 60_000, false],
    [{ timeout_ms: 5000 }, 5000, false],
    [{ timeout_seconds: 1.5 }, 1500, false],
    [{ timeout_ms: 60_001 }, 60_000, true],
    [{ timeout_ms: 864_000_000_000 }, 60_000, true],
    [{ timeout_seconds: 1e9 }, 60_000, true],
  ])("reports the timeout in effect for %j", async (body, timeout_ms, timeout_clamped) => {
    const { json } = await run({ cmd: "true", ...body });
    expect(json).toMatchObject({ exit_code: 0, timeout_ms, timeout_clamped });
    expect((await on(json.exec_id as string, "")).json).toMatchObject({
      timeout_ms,
      timeout_clamped,
    });
  });

  it("responds within wait_ms while the command continues, and waits again by its id", async () => {
    const cmd = "echo so far; read; echo done";
    const early = await run({ cmd, stdin_open: true, wait_ms: 1000 });
    expect(early).toMatchObject({
      status: 200,
      json: { status: "running", exit_code: null, output: "so far\n", next_cursor: 7 },
    });
    const exec = early.json.exec_id as string;
    expect((await on(exec, "/wait", { wait_ms: 1 })).json.status).toBe("running");
    await on(exec, "/stdin", { text: "\n" });
    const page = await on(exec, `/output?cursor=${early.json.next_cursor}&wait_ms=5000`);
    expect(page.json.chunks).toMatchObject([{ chunk: "done\n" }]);
    expect((await on(exec, "/wait", {})).json).toMatchObject({ status: "done", exit_code: 0 });
  });

  it("waits for the end if wait_ms is longer than a timer can be", async () => {
    const wait_ms = 2 ** 31;
    const waited = await run({ cmd: "sleep 0.1; echo done", wait_ms });
    expect(waited.json).toMatchObject({ status: "done", output: "done\n" });
    const { exec_id } = (await run({ cmd: "sleep 0.1", wait_ms: 0 })).json;
    expect((await on(exec_id as string, "/wait", { wait_ms })).json.status).toBe("done");
  });

  it("responds when the output matches, including background output", async () => {
    const until = { pattern: String.raw`port (\d+)` };
    const match = { text: "port 80", groups: ["80"], line: "on port 80", stream: "stdout" };
    const running = await run({ cmd: "echo on port 80; read", stdin_open: true, until });
    expect(running.json).toMatchObject({ status: "running", matched: true, match });
    await on(running.json.exec_id as string, "/stdin", { text: "\n" });
    const served = await run({ cmd: "sleep 0.1 && echo on port 80 && sleep 100 &", until });
    expect(served.json).toMatchObject({ status: "done", background: true, matched: true, match });
    const never = await run({ cmd: "echo nothing", until });
    expect(never.json).toMatchObject({ status: "done", matched: false });
    const late = await run({ cmd: "read", stdin_open: true, until, wait_ms: 20 });
    expect(late.json).toMatchObject({ status: "running", matched: false });
    const exec = late.json.exec_id as string;
    await on(exec, "/stdin", { text: "\n" });
    expect((await on(exec, "/wait", { until })).json).toMatchObject({ matched: false });
    const other = { ...until, stream: "stderr" };
    expect((await run({ cmd: "echo on port 80", until: other })).json.matched).toBe(false);
  });

  it("starts nothing if the pattern is invalid", async () => {
    const answer = await run({ cmd: "echo begun > begun", until: { pattern: "(" } });
    expect(answer).toMatchObject({ status: 400, json: { error_code: "INVALID_REQUEST" } });
    expect((await run({ cmd: "cat begun" })).json.exit_code).toBe(1);
  });

  it("returns the exact bytes as base64 on request", async () => {
    const bytes = Buffer.from([0, 255, 254, 10]).toString("base64");
    const { json } = await run({ cmd: ["cat"], stdin_base64: bytes, raw_output: true });
    expect(json.output_base64).toBe(bytes);
  });

  it("omits the middle of output beyond the budget, and says so", async () => {
    const { json } = await run({ cmd: ["cat"], stdin: "x".repeat(5000), output_budget_bytes: 100 });
    expect(json).toMatchObject({ truncated: true, output_bytes: 5000 });
    expect(json.output).toContain("bytes omitted");
  });

  it("returns 504 with the result after a timeout", async () => {
    const answer = await run({ cmd: "echo before; sleep 30", timeout_ms: 30 });
    expect(answer.status).toBe(504);
    expect(answer.json).toMatchObject({
      error_code: "COMMAND_TIMEOUT",
      details: { status: "done", output: "before\n", timed_out: true, end_reason: "timeout" },
    });
    const seconds = await run({ cmd: "sleep 30", timeout_seconds: 0.03 });
    expect(seconds).toMatchObject({ status: 504, json: { error_code: "COMMAND_TIMEOUT" } });
    expect((await run({ cmd: "echo on" })).json.output).toBe("on\n");
  });

  it.each([
    ["unknown", "may have run"],
    ["sandbox_gone", "may have run"],
    ["not_started", "the command was not started"],
  ] as const)("returns 503 with the result if the end is %s", async (endReason, explanation) => {
    await using own = await HttpFixture.start({
      replace: {
        exec: {
          wait() {
            const { exitCode: _, ...rest } = this.row!;
            return Promise.resolve({ ...rest, status: "done", endReason });
          },
        },
      },
    });
    const session = await own.createSession();
    const answer = await own.call(`/v1/sessions/${session}/exec`, { body: { cmd: "true" } });
    expect(answer.status).toBe(503);
    expect(answer.json).toMatchObject({
      error_code: "SANDBOX_UNREACHABLE",
      details: { end_reason: endReason, exit_code: null, output: "" },
    });
    expect(answer.json.message).toContain(explanation);
  });

  it("runs a repeated request once", async () => {
    const once = { "idempotency-key": "run-1" };
    const body = { cmd: "echo more >> /workspace/log" };
    const first = await run(body, once);
    const second = await run(body, once);
    expect(second.json.exec_id).toBe(first.json.exec_id);
    expect((await run({ cmd: "cat /workspace/log" })).json.output).toBe("more\n");
    expect(await run({ cmd: "other" }, once)).toMatchObject({
      status: 409,
      json: { error_code: "CONFLICT" },
    });
    expect((await run(body, { "idempotency-key": "two words" })).status).toBe(400);
    const without = { "idempotency-key": "" };
    expect((await run({ cmd: "echo 1" }, without)).json.exec_id).not.toBe(
      (await run({ cmd: "echo 1" }, without)).json.exec_id,
    );
  });

  it("does not end the command when the client leaves", async () => {
    const leave = new AbortController();
    const cmd = ["sleep", "0.2"];
    const left = http.fetch(`/v1/sessions/${id}/exec`, { body: { cmd }, signal: leave.signal });
    const find = async (): Promise<{ exec_id: string } | undefined> =>
      (await http.call(`/v1/sessions/${id}/execs`)).json.execs.find(
        (one: { cmd: unknown }) => JSON.stringify(one.cmd) === JSON.stringify(cmd),
      );
    let exec = await find();
    while (exec === undefined) exec = await find();
    leave.abort();
    await expect(left).rejects.toThrow();
    expect((await on(exec.exec_id, "/wait", {})).json).toMatchObject({
      exit_code: 0,
      end_reason: "exited",
    });
  });

  it("says when to retry if a sandbox did not respond", async () => {
    await using own = await HttpFixture.start({
      replace: {
        sessions: {
          stats: () => Promise.reject(new SandboxError("SANDBOX_UNREACHABLE", "no answer")),
        },
      },
    });
    const answer = await own.call(`/v1/sessions/${await own.createSession()}/stats`);
    expect(answer).toMatchObject({ status: 503, json: { error_code: "SANDBOX_UNREACHABLE" } });
    expect(answer.headers.get("retry-after")).toBe("1");
  });

  it("returns the errors of the core", async () => {
    await using own = await HttpFixture.start({
      replace: {
        execs: {
          start: () => Promise.reject(new SandboxError("QUOTA_EXCEEDED", "too many commands")),
        },
      },
    });
    const session = await own.createSession();
    const answer = await own.call(`/v1/sessions/${session}/exec`, { body: { cmd: "true" } });
    expect(answer).toMatchObject({
      status: 429,
      json: { error_code: "QUOTA_EXCEEDED", message: "too many commands" },
    });
    expect(answer.headers.get("retry-after")).toBe("1");
    expect((await run({ cmd: [] })).headers.has("retry-after")).toBe(false);
    const large = await run({ cmd: "x".repeat(1_048_577) });
    expect(large).toMatchObject({ status: 413, json: { error_code: "PAYLOAD_TOO_LARGE" } });
  });
});

describe("a command that was started", () => {
  it("can be listed, fed, read by cursor and waited for", async () => {
    http.core.clock.pass(1000);
    const exec = await start({ cmd: ["cat"], stdin_open: true });
    expect((await on(exec, "")).json).toMatchObject({
      status: "running",
      exit_code: null,
      end_reason: null,
      cmd: ["cat"],
    });
    const waiting = on(exec, "/output?wait_ms=20000");
    expect((await on(exec, "/stdin", { text: "one" })).json).toEqual({ ok: true });
    expect((await waiting).json).toMatchObject({
      cursor: 0,
      next_cursor: 3,
      done: false,
      chunks: [{ chunk: "one", stream: "stdout", offset: 0, seq: 0 }],
      exec: { exec_id: exec },
    });
    expect((await on(exec, "/wait", { timeout_ms: 1 })).json).toMatchObject({
      status: "running",
      output: "one",
    });
    expect((await on(exec, "/stdin", { content_base64: "dHdv", close: true })).status).toBe(200);
    expect((await on(exec, "/wait", {})).json).toMatchObject({
      status: "done",
      exit_code: 0,
      output: "onetwo",
    });
    const rest = await on(exec, "/output?cursor=3&raw=true");
    expect(rest.json).toMatchObject({
      next_cursor: 6,
      done: true,
      chunks: [{ chunk: "two" }],
    });
    const part = await on(exec, "/output?cursor=1&max_bytes=2");
    expect(part.json).toMatchObject({
      next_cursor: 3,
      done: false,
      chunks: [{ chunk: "ne", offset: 1 }],
    });
    const list = await http.call(`/v1/sessions/${id}/execs?limit=1`);
    expect(list.json).toMatchObject({
      execs: [{ exec_id: exec }],
      next_cursor: expect.any(String) as string,
    });
  });

  it("does not split characters between pages", async () => {
    const exec = await start({ cmd: ["cat"], stdin: "aä€😀b" });
    await on(exec, "/wait", {});
    let text = "";
    let cursor = 0;
    for (let pages = 0; pages < 20; pages++) {
      const { json } = await on(exec, `/output?cursor=${cursor}&max_bytes=5`);
      text += json.chunks.map((one: { chunk: string }) => one.chunk).join("");
      cursor = json.next_cursor;
      if (json.done) break;
    }
    expect(text).toBe("aä€😀b");
  });

  it("can be signalled by name or number", async () => {
    for (const signal of ["TERM", "SIGTERM", 15, undefined]) {
      const exec = await start({ cmd: ["sleep", "1000"] });
      const body = signal === undefined ? {} : { signal };
      expect((await on(exec, "/signal", body)).json).toEqual({ ok: true, delivered: 1 });
      expect((await on(exec, "/wait", {})).json).toMatchObject({
        end_reason: "killed",
        signal: 15,
      });
    }
    const exec = await start({ cmd: ["true"] });
    expect((await on(exec, "/signal", { signal: "NONSENSE" })).status).toBe(400);
  });

  it("has a terminal that can be resized, if it was given one", async () => {
    const cmd = ["sh", "-c", "read line; stty size"];
    const exec = await start({ cmd, pty: { rows: 24, cols: 80 }, stdin_open: true });
    expect((await on(exec, "/resize", { rows: 40, cols: 100 })).json).toEqual({ ok: true });
    await on(exec, "/stdin", { text: "\n" });
    expect((await on(exec, "/wait", {})).json).toMatchObject({ output: "40 100\n" });
    const plain = await start({ cmd: ["sleep", "1000"] });
    expect((await on(plain, "/resize", { rows: 40, cols: 100 })).status).toBe(400);
    await on(plain, "/signal", { signal: 9 });
  });

  it("refuses invalid requests", async () => {
    const exec = await start({ cmd: ["true"] });
    await on(exec, "/wait", {});
    expect((await on(exec, "/stdin", {})).status).toBe(400);
    expect((await on(exec, "/stdin", { text: "a", content_base64: "YQ==" })).status).toBe(400);
    expect(await on(exec, "/stdin", { text: "a" })).toMatchObject({
      status: 409,
      json: { error_code: "CONFLICT" },
    });
    for (const act of ["", "/output", "/stream"])
      expect(await on("exe_none", act)).toMatchObject({
        status: 404,
        json: { error_code: "EXEC_NOT_FOUND" },
      });
  });
});
