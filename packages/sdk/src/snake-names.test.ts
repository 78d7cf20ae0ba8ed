import { describe, expect, expectTypeOf, test } from "vitest";
import type { SandboxClient } from "./client.ts";
import { type ClientOptions, toTransportOptions } from "./client-options.ts";
import type { ExecOptions, ExecResult } from "./exec-types.ts";
import type { Session } from "./session.ts";
import type { CreateSessionOptions, SessionInfo, SessionPage } from "./session-types.ts";
import { camelOptions } from "./snake-names.ts";
import {
  type Answer,
  bytes,
  event,
  events,
  failure,
  json,
  type ReceivedRequest,
  ScriptedServer,
} from "./testing/scripted-server.ts";
import { serveTerminals } from "./testing/terminal-server.ts";
import {
  chunkBody,
  clientOf,
  execInfoBody,
  execResultBody,
  sessionBody,
  sessionOf,
} from "./testing/wire-samples.ts";

/** A call on a client, or on one of its sessions. */
type Use = (session: Session, client: SandboxClient) => Promise<unknown>;

const pageBody = {
  exec_id: "exe_1",
  cursor: 0,
  next_cursor: 2,
  chunks: [chunkBody(0, "hi")],
  skipped_bytes: 7,
  done: true,
  exec: execInfoBody,
};
const imageBody = { reference: "x", digest: "d", source: "host", size_bytes: 4, created_at: "now" };

describe("options in snake_case", () => {
  test("have the same types as those in camelCase", () => {
    expectTypeOf<ExecOptions["timeout_ms"]>().toEqualTypeOf<number | undefined>();
    expectTypeOf<CreateSessionOptions>().toExtend<{ readonly workspace_id?: string | undefined }>();
    expectTypeOf<{ readonly base_url: URL }>().toExtend<ClientOptions>();
    // @ts-expect-error -- a name that no option has
    const wrong: ExecOptions = { time_out: 1 };
    expect(wrong).toBeDefined();
  });

  test("create the same client", () => {
    const { fetch, WebSocket } = globalThis;
    const camel: ClientOptions = {
      baseUrl: "http://host:1",
      apiKey: "sk_1",
      fetch,
      webSocket: WebSocket,
      timeoutMs: 1,
      maxRetries: 2,
      retryDelayMs: 3,
    };
    const snake: ClientOptions = {
      base_url: "http://host:1",
      api_key: "sk_1",
      fetch,
      web_socket: WebSocket,
      timeout_ms: 1,
      max_retries: 2,
      retry_delay_ms: 3,
    };
    expect(toTransportOptions(snake)).toEqual(toTransportOptions(camel));
  });

  test.each<readonly [string, Answer, Use, Use]>([
    [
      "createSession()",
      json(201, sessionBody),
      (_, client) =>
        client.createSession({
          ttlSeconds: 60,
          workspaceId: "notes",
          workspaces: [{ id: "data", path: "/mnt", readOnly: true }],
          idempotencyKey: "once",
          limits: { memoryMb: 1, cpuMillicores: 2, diskMb: 3, diskInodes: 4 },
        }),
      (_, client) =>
        client.createSession({
          ttl_seconds: 60,
          workspace_id: "notes",
          workspaces: [{ id: "data", path: "/mnt", read_only: true }],
          idempotency_key: "once",
          limits: { memory_mb: 1, cpu_millicores: 2, disk_mb: 3, disk_inodes: 4 },
        }),
    ],
    [
      "session.exec()",
      json(200, execResultBody),
      (session) =>
        session.exec("x", {
          timeoutMs: 1,
          idleTimeoutMs: 2,
          outputBudgetBytes: 3,
          idempotencyKey: "once",
        }),
      (session) =>
        session.exec("x", {
          timeout_ms: 1,
          idle_timeout_ms: 2,
          output_budget_bytes: 3,
          idempotency_key: "once",
        }),
    ],
    [
      "session.stream()",
      events([event("done", execInfoBody)], "end", { "X-Exec-Id": "exe_1" }),
      (session) => Array.fromAsync(session.stream("x", { timeoutMs: 1, idempotencyKey: "once" })),
      (session) => Array.fromAsync(session.stream("x", { timeout_ms: 1, idempotency_key: "once" })),
    ],
    [
      "session.start()",
      json(202, execInfoBody),
      (session) => session.start("x", { stdinOpen: true, idempotencyKey: "once" }),
      (session) => session.start("x", { stdin_open: true, idempotency_key: "once" }),
    ],
    [
      "session.renew()",
      json(200, sessionBody),
      (session) => session.renew({ ttlSeconds: 5 }),
      (session) => session.renew({ ttl_seconds: 5 }),
    ],
    [
      "exec.read()",
      json(200, pageBody),
      (session) => session.getExec("exe_1").read({ maxBytes: 1, waitMs: 2 }),
      (session) => session.getExec("exe_1").read({ max_bytes: 1, wait_ms: 2 }),
    ],
    [
      "exec.wait()",
      json(200, execResultBody),
      (session) => session.getExec("exe_1").wait({ timeoutMs: 0, outputBudgetBytes: 1 }),
      (session) => session.getExec("exe_1").wait({ timeout_ms: 0, output_budget_bytes: 1 }),
    ],
    [
      "session.read()",
      bytes("hi", 206),
      (session) => session.read("a", { maxBytes: 2 }),
      (session) => session.read("a", { max_bytes: 2 }),
    ],
  ])("send the daemon the same request in %s", async (_, answer, camel, snake) => {
    await using server = await ScriptedServer.start(answer, answer);
    await camel(sessionOf(server), clientOf(server));
    await snake(sessionOf(server), clientOf(server));
    const [one, other] = server.requests.map(essence);
    expect(other).toEqual(one);
  });

  test("reattach to a terminal", async () => {
    await using server = await ScriptedServer.start();
    const urls: string[] = [];
    serveTerminals(server, (terminal) => {
      urls.push(terminal.url);
      terminal.send({ type: "started", exec_id: "exe_7" });
    });
    using pty = await sessionOf(server).pty({ exec_id: "exe_7" });
    expect(urls).toEqual(["/v1/sessions/ses_1/pty?exec_id=exe_7"]);
    expect(pty.exec_id).toBe("exe_7");
  });

  test("report the progress of an image", async () => {
    const progress = event("progress", { phase: "download", done: 1 });
    await using server = await ScriptedServer.start(events([progress, event("done", imageBody)]));
    const seen: unknown[] = [];
    await clientOf(server).images.pull("x", { on_progress: (news) => seen.push(news) });
    expect(seen).toEqual([{ phase: "download", done: 1 }]);
  });

  test("can be combined with those in camelCase if the values are the same", () => {
    expect(camelOptions<ExecOptions>({ timeout_ms: 5, timeoutMs: 5 }).timeoutMs).toBe(5);
    expect(camelOptions<ExecOptions>({ timeout_ms: 5, timeoutMs: undefined }).timeoutMs).toBe(5);
    expect(camelOptions<ExecOptions>({ timeout_ms: undefined, timeoutMs: 5 }).timeoutMs).toBe(5);
  });

  test("are refused if they contradict those in camelCase, and nothing is sent", async () => {
    await using server = await ScriptedServer.start();
    const session = sessionOf(server);
    const contradiction = session.exec("x", { timeoutMs: 0, timeout_ms: 1 });
    await expect(contradiction).rejects.toThrow(TypeError);
    await expect(contradiction).rejects.toThrow(
      "timeoutMs and timeout_ms are the same option but have different values; pass one of them.",
    );
    const limits = { memoryMb: 1, memory_mb: 2 };
    await expect(clientOf(server).createSession({ limits })).rejects.toThrow("memory_mb");
    expect(() => clientOf(server, { api_key: "sk_other" })).toThrow("apiKey and api_key");
    expect(server.requests).toEqual([]);
  });

  test("do not change the caller's own names", async () => {
    await using server = await ScriptedServer.start(json(200, execResultBody));
    await sessionOf(server).exec("x", { env: { my_var: "1", myVar: "2" } });
    expect(server.json(0)).toMatchObject({ env: { my_var: "1", myVar: "2" } });
  });
});

describe("results", () => {
  test("also have types for both names", () => {
    expectTypeOf<ExecResult["exit_code"]>().toEqualTypeOf<number | null>();
    expectTypeOf<SessionInfo["limits"]["disk_mb"]>().toEqualTypeOf<number>();
    expectTypeOf<SessionPage["next_cursor"]>().toEqualTypeOf<string | undefined>();
    expectTypeOf<Session["expires_at"]>().toEqualTypeOf<string>();
  });

  test.each<readonly [string, Answer, Use, object]>([
    [
      "a command",
      json(200, { ...execResultBody, output_base64: "aGkK" }),
      (session) => session.exec("x"),
      { exit_code: 0, duration_ms: 12, raw_output: new Uint8Array([0x68, 0x69, 0x0a]) },
    ],
    [
      "a page of output",
      json(200, pageBody),
      (session) => session.getExec("exe_1").read(),
      { next_cursor: 2, skipped_bytes: 7, exec: { exec_id: "exe_1" } },
    ],
    [
      "a session",
      json(200, sessionBody),
      async (_, client) => (await client.getSession("ses_1")).lastInfo,
      { expires_at: "2026-01-31T12:30:00.000Z", limits: { memory_mb: 512 } },
    ],
    [
      "the use of a sandbox",
      json(200, { memory_bytes: 1, pids: 2 }),
      (session) => session.stats(),
      { memory_bytes: 1 },
    ],
    [
      "a workspace",
      json(200, { id: "notes", last_used_at: "now" }),
      (_, client) => client.workspaces.get("notes"),
      { last_used_at: "now" },
    ],
    [
      "a file",
      json(200, { path: "/a", size: 3, size_bytes: 3, is_dir: false }),
      (session) => session.files.stat("/a"),
      { size_bytes: 3, is_dir: false },
    ],
    [
      "a file that was written",
      json(200, { path: "/a", size_bytes: 3 }),
      (session) => session.write("/a", "abc"),
      { size_bytes: 3 },
    ],
    ["an image", json(200, imageBody), (_, client) => client.images.pull("x"), { size_bytes: 4 }],
    [
      "removed images",
      json(200, { removed: 1, freed_bytes: 2 }),
      (_, client) => client.images.collectGarbage(),
      { freed_bytes: 2 },
    ],
  ])("have %s under both names, and each field once", async (_, answer, use, aliases) => {
    await using server = await ScriptedServer.start(answer);
    const result = await use(sessionOf(server), clientOf(server));
    expect(result).toMatchObject(aliases);
    const names = Object.keys(JSON.parse(JSON.stringify(result)) as object);
    expect(names.filter((name) => name.includes("_"))).toEqual([]);
    expect(names).not.toEqual([]);
  });

  test("have pieces of output under both names", async () => {
    const output = [chunkBody(0, "a"), chunkBody(5, new Uint8Array([0xc3]))].map((chunk) =>
      event("chunk", chunk),
    );
    const named = { "X-Exec-Id": "exe_1" };
    await using server = await ScriptedServer.start(
      events([...output, event("done", execInfoBody)], "end", named),
    );
    const chunks = await Array.fromAsync(sessionOf(server).stream("x"));
    // The last chunk is an incomplete character.
    expect(chunks.map(({ skipped_bytes }) => skipped_bytes)).toEqual([0, 4, 0]);
    expect(chunks.map(({ text }) => text)).toEqual(["a", "", "\uFFFD"]);
  });

  test("have the next page of sessions under both names", async () => {
    await using server = await ScriptedServer.start(
      json(200, [sessionBody], { "X-Next-Cursor": "c1" }),
    );
    const page = await clientOf(server).listSessions();
    expect(page.next_cursor).toBe("c1");
    expect(page.map(({ workspace_id }) => workspace_id)).toEqual(["notes"]);
  });

  test("have no name for what is absent", async () => {
    await using server = await ScriptedServer.start(json(200, sessionBody));
    const { lastInfo: info } = await clientOf(server).getSession("ses_1");
    expect("ended_at" in info).toBe(false);
    expect(info.ended_at).toBeUndefined();
  });

  test("that are errors have both names", async () => {
    await using server = await ScriptedServer.start(
      failure(429, "QUOTA_EXCEEDED", { "Retry-After": "2" }),
    );
    const refused = clientOf(server, { maxRetries: 0 }).getSession("ses_1");
    await expect(refused).rejects.toMatchObject({
      request_id: "req_1",
      requestId: "req_1",
      retry_after_ms: 2000,
      retryAfterMs: 2000,
    });
  });

  test("by a command's id have both names", async () => {
    await using server = await ScriptedServer.start();
    expect(sessionOf(server).getExec("exe_1").session_id).toBe("ses_1");
  });
});

/** Everything in a request that its options can change. */
function essence({ method, url, headers, body }: ReceivedRequest): unknown {
  const { range, "idempotency-key": key } = headers;
  return { method, url, range, key, body: body.toString() };
}
