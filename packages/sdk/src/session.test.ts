import { describe, expect, test } from "vitest";
import { SandboxError } from "./sandbox-error.ts";
import {
  bytes,
  cut,
  event,
  events,
  failure,
  json,
  ScriptedServer,
} from "./testing/scripted-server.ts";
import {
  chunkBody,
  clientOf,
  execInfoBody,
  execResultBody,
  sessionBody,
  sessionOf,
} from "./testing/wire-samples.ts";

describe("exec()", () => {
  test("returns the result in camelCase", async () => {
    const body = { ...execResultBody, output_base64: "aGkK" };
    await using server = await ScriptedServer.start(json(200, body));
    const result = await sessionOf(server).exec("echo hi", { raw: true });
    expect(server.lines).toEqual(["POST /v1/sessions/ses_1/exec"]);
    expect(server.json(0)).toEqual({ cmd: "echo hi", raw_output: true });
    expect(result).toEqual({
      execId: "exe_1",
      sessionId: "ses_1",
      status: "done",
      cmd: "echo hi",
      exitCode: 0,
      endReason: "exited",
      timedOut: false,
      cwd: "/workspace",
      durationMs: 12,
      outputBytes: 3,
      stdoutBytes: 3,
      stderrBytes: 0,
      droppedBytes: 0,
      shellRestarted: false,
      background: false,
      backgroundBytes: 0,
      timeoutMs: 86_400_000,
      timeoutClamped: false,
      startedAt: "2026-01-31T12:00:00.000Z",
      endedAt: "2026-01-31T12:00:00.012Z",
      nextCursor: 3,
      output: "hi\n",
      stdout: "hi\n",
      stderr: "",
      truncated: false,
      rawOutput: new Uint8Array([0x68, 0x69, 0x0a]),
    });
  });

  test("sends every option with its name in the API", async () => {
    await using server = await ScriptedServer.start(json(200, execResultBody));
    await sessionOf(server).exec(["cat", "-"], {
      timeoutMs: 0,
      idleTimeoutMs: 5,
      cwd: "/tmp",
      env: { A_B: "1", LEFT_OUT: undefined },
      onDisconnect: "cancel",
      user: "1000:1000",
      stdin: new Uint8Array([0xff, 0]),
      stateful: false,
      merge: true,
      outputBudgetBytes: 10,
    });
    expect(server.json(0)).toEqual({
      cmd: ["cat", "-"],
      timeout_ms: 0,
      idle_timeout_ms: 5,
      cwd: "/tmp",
      env: { A_B: "1" },
      user: "1000:1000",
      stdin_base64: "/wA=",
      stateful: false,
      merge: true,
      output_budget_bytes: 10,
      on_disconnect: "cancel",
    });
  });

  test("leaves a command running or cancels it if the caller aborts", async () => {
    for (const onAbort of ["detach", "cancel"] as const) {
      const caller = new AbortController();
      const reason = new Error("enough");
      await using server = await ScriptedServer.start(
        () => caller.abort(reason),
        json(202, execInfoBody),
        json(200, { ok: true, cancelled: true }),
      );
      const { signal } = caller;
      const running = sessionOf(server).exec("make", { signal, onAbort, idempotencyKey: "k" });
      await expect(running).rejects.toBe(reason);
      const cancel = [
        "POST /v1/sessions/ses_1/execs",
        "POST /v1/sessions/ses_1/execs/exe_1/cancel",
      ];
      expect(server.lines.slice(1)).toEqual(onAbort === "cancel" ? cancel : []);
      if (onAbort === "cancel") {
        // The same request with the same key finds the command that it started.
        expect(server.json(1)).toEqual(server.json(0));
        expect(server.requests[1]?.headers["idempotency-key"]).toBe("k");
      }
    }
  });

  test("runs in a named shell, which can be closed", async () => {
    const shells = { shells: [{ name: "build", kind: "bash", cwd: "/", busy: false, queued: 0 }] };
    await using server = await ScriptedServer.start(
      json(200, execResultBody),
      json(200, shells),
      json(200, { ok: true }),
    );
    const session = sessionOf(server);
    const shell = session.shell("build");
    await shell.exec("make");
    expect(server.json(0)).toEqual({ cmd: "make", shell: "build" });
    expect(await session.shells()).toMatchObject([{ name: "build", queued: 0 }]);
    await shell.close();
    expect(server.lines).toEqual([
      "POST /v1/sessions/ses_1/exec",
      "GET /v1/sessions/ses_1/shells",
      "DELETE /v1/sessions/ses_1/shells/build",
    ]);
  });

  test("throws if the command exceeded its timeout, with its output, and does not run it again", async () => {
    const details = { ...execResultBody, exit_code: 124, end_reason: "timeout", timed_out: true };
    await using server = await ScriptedServer.start(
      json(504, { error_code: "COMMAND_TIMEOUT", message: "too long", details, request_id: "r" }),
    );
    const error = await sessionOf(server)
      .exec("sleep 9", { timeoutMs: 1 })
      .catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(SandboxError);
    expect(error).toMatchObject({
      code: "COMMAND_TIMEOUT",
      status: 504,
      retryable: false,
      details: { exit_code: 124 },
      result: { exitCode: 124, endReason: "timeout", timedOut: true, output: "hi\n" },
    });
    expect(server.requests).toHaveLength(1);
  });

  test("does not retry a command that ended with its sandbox", async () => {
    const details = { ...execResultBody, exit_code: null, end_reason: "sandbox_gone" };
    await using server = await ScriptedServer.start(
      json(503, { error_code: "SANDBOX_UNREACHABLE", message: "gone", details, request_id: "r" }),
    );
    await expect(sessionOf(server).exec("x")).rejects.toMatchObject({
      code: "SANDBOX_UNREACHABLE",
      result: { endReason: "sandbox_gone" },
    });
    expect(server.requests).toHaveLength(1);
  });

  test("retries with the same key if its connection breaks or the daemon restarts", async () => {
    const stopping = failure(503, "SANDBOX_UNREACHABLE");
    await using server = await ScriptedServer.start(cut, stopping, json(200, execResultBody));
    expect((await sessionOf(server).exec("echo hi")).output).toBe("hi\n");
    expect(new Set(server.requests.map(({ headers }) => headers["idempotency-key"])).size).toBe(1);
  });
});

describe("the names of other API clients", () => {
  test("work for output and end in one loop, for text, and for the state of a session", async () => {
    const named = { "X-Exec-Id": "exe_1" };
    await using server = await ScriptedServer.start(
      events([event("chunk", chunkBody(0, "ab")), event("done", execInfoBody)], "end", named),
      bytes("text"),
      json(200, { ok: true, path: "/workspace/a", size: 1, size_bytes: 1, etag: "e" }),
      json(200, { ...sessionBody, status: "paused" }),
    );
    const session = sessionOf(server);
    const seen = await Array.fromAsync(session.execStream("x", { timeoutMs: 5 }));
    expect(seen).toMatchObject([
      { output: "ab", done: false, stream: "stdout" },
      { output: "", done: true, exitCode: 0, exit_code: 0, endReason: "exited" },
    ]);
    expect(await session.readText("a")).toBe("text");
    await session.writeText("a", "x");
    expect((await session.info()).status).toBe("paused");
    expect(session.status).toBe("paused");
  });
});

describe("a command that was started", () => {
  test("can be examined, waited for, signalled, fed and resized by its id", async () => {
    const running = { ...execInfoBody, status: "running" };
    const ok = json(200, { ok: true });
    await using server = await ScriptedServer.start(
      json(202, running),
      json(200, running),
      json(200, { ok: true, delivered: 3 }),
      ok,
      ok,
      ok,
      ok,
      json(200, execResultBody),
    );
    const options = { stdinOpen: true, pty: { rows: 24, cols: 80 } };
    const exec = await sessionOf(server).start(["bash"], options);
    expect(exec.id).toBe("exe_1");
    expect((await exec.info()).status).toBe("running");
    expect(await exec.signal("INT", { tree: true })).toBe(3);
    await exec.writeStdin("text");
    await exec.writeStdin(new Uint8Array([1]));
    await exec.closeStdin();
    await exec.resize({ rows: 1, cols: 2 });
    expect((await exec.wait()).exitCode).toBe(0);
    const base = "/v1/sessions/ses_1/execs";
    expect(server.lines).toEqual([
      `POST ${base}`,
      `GET ${base}/exe_1`,
      `POST ${base}/exe_1/signal`,
      `POST ${base}/exe_1/stdin`,
      `POST ${base}/exe_1/stdin`,
      `POST ${base}/exe_1/stdin`,
      `POST ${base}/exe_1/resize`,
      `POST ${base}/exe_1/wait`,
    ]);
    expect(server.json(0)).toEqual({
      cmd: ["bash"],
      stdin_open: true,
      pty: { rows: 24, cols: 80 },
    });
    expect([2, 3, 4, 5, 6].map((index) => server.json(index))).toEqual([
      { signal: "INT", tree: true },
      { text: "text" },
      { content_base64: "AQ==" },
      { close: true },
      { rows: 1, cols: 2 },
    ]);
  });

  test("can be waited for until its end, in several requests, one of which can break", async () => {
    const running = json(200, { ...execResultBody, status: "running" });
    await using server = await ScriptedServer.start(
      running,
      cut,
      running,
      json(200, execResultBody),
    );
    expect((await sessionOf(server).getExec("exe_1").wait()).status).toBe("done");
    expect(server.requests).toHaveLength(4);
  });

  test("is waited for no longer than requested", async () => {
    await using server = await ScriptedServer.start(
      json(200, { ...execResultBody, status: "running" }),
    );
    const result = await sessionOf(server).getExec("exe_1").wait({ timeoutMs: 0 });
    expect(result.status).toBe("running");
    expect(server.json(0)).toEqual({ timeout_ms: 0 });
  });

  test("gets its input once, even if the response is lost", async () => {
    await using server = await ScriptedServer.start(cut);
    const exec = sessionOf(server).getExec("exe_1");
    await expect(exec.writeStdin("x")).rejects.toMatchObject({ code: "CONNECTION_FAILED" });
    expect(server.requests).toHaveLength(1);
  });

  test("execs() lists all, page by page", async () => {
    await using server = await ScriptedServer.start(
      json(200, { execs: [execInfoBody], next_cursor: "c1" }),
      json(200, { execs: [{ ...execInfoBody, exec_id: "exe_0" }] }),
    );
    const all = await Array.fromAsync(sessionOf(server).execs());
    expect(all.map(({ execId }) => execId)).toEqual(["exe_1", "exe_0"]);
    expect(server.lines[1]).toBe("GET /v1/sessions/ses_1/execs?cursor=c1");
  });
});

describe("a session", () => {
  test("has its last known state, under both names", async () => {
    const ended = { ...sessionBody, status: "expired", ended_at: "2026-01-31T12:30:00.000Z" };
    await using server = await ScriptedServer.start(json(200, sessionBody), json(200, ended));
    const session = await clientOf(server).getSession("ses_1");
    expect(session).toMatchObject(session.lastInfo);
    expect(session).toMatchObject({ id: "ses_1", workspace_id: "notes", status: "running" });
    expect(session.ended_at).toBeUndefined();
    await session.refresh();
    expect([session.status, session.endedAt, session.ended_at]).toEqual([
      "expired",
      ended.ended_at,
      ended.ended_at,
    ]);
    expect(JSON.parse(JSON.stringify(session))).toEqual({ ...session.lastInfo, files: {} });
  });

  test("keeps its methods and files if a newer daemon has a field of that name", async () => {
    const body = { ...sessionBody, stats: 1, files: 2, info: 3 };
    const read = json(200, { path: "/workspace", entries: [] });
    await using server = await ScriptedServer.start(json(200, body), json(200, { pids: 4 }), read);
    const session = await clientOf(server).getSession("ses_1");
    expect(await session.stats()).toEqual({ pids: 4 });
    expect(await Array.fromAsync(session.files.list())).toEqual([]);
    expect(session.lastInfo.id).toBe("ses_1");
  });

  test("can be refreshed, paused, resumed and renewed, and updates its state", async () => {
    const as = (status: string) => json(200, { ...sessionBody, status });
    await using server = await ScriptedServer.start(
      as("expired"),
      as("paused"),
      as("running"),
      as("running"),
    );
    const session = sessionOf(server);
    expect((await session.refresh()).status).toBe("expired");
    await session.pause();
    expect(session.lastInfo.status).toBe("paused");
    await session.resume();
    await session.renew({ ttlSeconds: 5 });
    expect(server.lines).toEqual([
      "GET /v1/sessions/ses_1",
      "POST /v1/sessions/ses_1/pause",
      "POST /v1/sessions/ses_1/resume",
      "POST /v1/sessions/ses_1/renew",
    ]);
    expect(server.json(3)).toEqual({ ttl_seconds: 5 });
  });

  test("reports its usage and isolation", async () => {
    const stats = {
      memory_bytes: 1,
      memory_limit: 2,
      cpu_usage_usec: 3,
      pids: 4,
      pids_limit: 5,
      disk_bytes: 6,
      disk_limit: 7,
      oom_kills: 8,
    };
    const facts = [{ name: "seccomp", enforced: true, measured: "2" }];
    await using server = await ScriptedServer.start(
      json(200, stats),
      json(200, { tier: "strong", runtime: "crun", facts }),
    );
    const session = sessionOf(server);
    expect(await session.stats()).toMatchObject({ memoryBytes: 1, cpuUsageUsec: 3, oomKills: 8 });
    expect(await session.isolation()).toEqual({ tier: "strong", runtime: "crun", facts });
  });

  test("is destroyed at the end of the block that uses it, even if the response is lost", async () => {
    await using server = await ScriptedServer.start(
      json(201, sessionBody),
      cut,
      json(200, { ok: true }),
    );
    {
      await using session = await clientOf(server).createSession();
      expect(session.id).toBe("ses_1");
    }
    expect(server.lines.slice(1)).toEqual([
      "DELETE /v1/sessions/ses_1",
      "DELETE /v1/sessions/ses_1",
    ]);
  });
});
