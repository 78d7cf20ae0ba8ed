import { afterEach, describe, expect, test, vi } from "vitest";
import { SandboxError } from "./sandbox-error.ts";
import { bytes, cut, events, failure, json, ScriptedServer } from "./testing/scripted-server.ts";
import { transportOf } from "./testing/wire-samples.ts";
import type { Call } from "./transport.ts";

const get: Call = { method: "GET", path: "/v1/thing" };
const post: Call = { method: "POST", path: "/v1/thing", json: { a: 1 } };
const ok = json(200, { ok: true });

async function errorOf(promise: Promise<unknown>): Promise<SandboxError> {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(SandboxError);
  return error as SandboxError;
}

afterEach(() => {
  vi.restoreAllMocks();
});

describe("a request", () => {
  test("carries the key, the query and JSON, below the path of the base URL", async () => {
    await using server = await ScriptedServer.start(ok);
    const transport = transportOf(server, { baseUrl: `${server.url}/box/` });
    const query = { name: "a b&c", many: ["x", "y"], none: undefined, flag: false, count: 0 };
    await transport.json({ ...post, query });
    expect(server.lines).toEqual([
      "POST /box/v1/thing?name=a+b%26c&many=x&many=y&flag=false&count=0",
    ]);
    expect(server.requests[0]!.headers).toMatchObject({
      authorization: "Bearer sk_test",
      "content-type": "application/json",
    });
    expect(server.json(0)).toEqual({ a: 1 });
  });

  test("without a key sends none", async () => {
    await using server = await ScriptedServer.start(ok);
    await transportOf(server, { apiKey: undefined }).json(get);
    expect(server.requests[0]!.headers).not.toHaveProperty("authorization");
  });

  test("uses the client's own fetch", async () => {
    await using server = await ScriptedServer.start();
    const own: typeof fetch = () => Promise.resolve(Response.json({ own: true }));
    expect(await transportOf(server, { fetch: own }).json(get)).toEqual({ own: true });
    expect(server.requests).toEqual([]);
  });
});

describe("an error", () => {
  test("is rebuilt from the response", async () => {
    const body = {
      error_code: "FILE_EXISTS",
      message: "it is there",
      details: { path: "/workspace/a" },
      request_id: "req_7",
    };
    await using server = await ScriptedServer.start(json(409, body));
    const error = await errorOf(transportOf(server).json(get));
    expect(error).toMatchObject({
      name: "SandboxError",
      code: "FILE_EXISTS",
      message: "it is there",
      status: 409,
      retryable: false,
      details: { path: "/workspace/a" },
      requestId: "req_7",
    });
  });

  test("with an unknown code is classified by its status, and keeps the code", async () => {
    await using server = await ScriptedServer.start(failure(409, "SOMETHING_NEW"));
    const error = await errorOf(transportOf(server).json(get));
    expect(error).toMatchObject({ code: "CONFLICT", details: { error_code: "SOMETHING_NEW" } });
  });

  test("from a proxy's page is classified by its status", async () => {
    const page = bytes("<h1>Forbidden</h1>", 403, { "X-Request-ID": "req_9" });
    await using server = await ScriptedServer.start(page);
    const error = await errorOf(transportOf(server).json(get));
    expect(error).toMatchObject({ code: "PERMISSION_DENIED", status: 403, requestId: "req_9" });
  });

  test("from a proxy that got no response means that there is no daemon", async () => {
    const page = bytes("<h1>Bad gateway</h1>", 502);
    await using server = await ScriptedServer.start(page, page, page);
    const error = await errorOf(transportOf(server).json(get));
    expect(error).toMatchObject({ code: "CONNECTION_FAILED", status: 502 });
    expect(server.requests).toHaveLength(3);
  });

  test("reports that nothing listens at the address", async () => {
    const server = await ScriptedServer.start();
    const transport = transportOf(server, { maxRetries: 0 });
    const { url } = server;
    await server[Symbol.asyncDispose]();
    const error = await errorOf(transport.json(get));
    expect(error).toMatchObject({ code: "CONNECTION_FAILED", status: 0, retryable: true });
    expect(error.message).toContain(`GET ${url}/v1/thing`);
    expect(error.message).toContain("ECONNREFUSED");
  });

  test("says that the server is not a daemon", async () => {
    await using server = await ScriptedServer.start(bytes("hello"));
    const error = await errorOf(transportOf(server, { maxRetries: 0 }).json(get));
    expect(error.code).toBe("CONNECTION_FAILED");
  });

  test("a redirect is refused", async () => {
    await using elsewhere = await ScriptedServer.start(ok);
    await using server = await ScriptedServer.start((response) => {
      response.writeHead(307, { Location: `${elsewhere.url}/v1/thing` }).end();
    });
    const error = await errorOf(transportOf(server).json(post));
    expect(error).toMatchObject({ code: "CONNECTION_FAILED", status: 307, retryable: false });
    expect(elsewhere.requests).toEqual([]);
  });
});

describe("a request is retried", () => {
  test("if it only reads and the connection broke", async () => {
    await using server = await ScriptedServer.start(cut, cut, ok);
    expect(await transportOf(server).json(get)).toEqual({ ok: true });
  });

  test("if the response broke off", async () => {
    await using server = await ScriptedServer.start((response) => {
      response.writeHead(200, { "Content-Length": "100" });
      response.write('{"ok":', () => response.destroy());
    }, ok);
    expect(await transportOf(server).json(get)).toEqual({ ok: true });
  });

  test("if it has an idempotency key, which stays the same", async () => {
    await using server = await ScriptedServer.start(cut, ok);
    await transportOf(server).json({ ...post, idempotencyKey: "key_1" });
    const keys = server.requests.map(({ headers }) => headers["idempotency-key"]);
    expect(keys).toEqual(["key_1", "key_1"]);
    expect(server.json(1)).toEqual({ a: 1 });
  });

  test.each([
    [429, "QUOTA_EXCEEDED"],
    [503, "SANDBOX_UNREACHABLE"],
  ])("after %i %s", async (status, code) => {
    await using server = await ScriptedServer.start(failure(status, code), ok);
    expect(await transportOf(server).json(get)).toEqual({ ok: true });
  });

  test("with a body of bytes, but not with a stream", async () => {
    const put: Call = { method: "PUT", path: "/v1/thing" };
    await using server = await ScriptedServer.start(cut, ok, cut);
    const transport = transportOf(server);
    await transport.json({ ...put, body: new Uint8Array([1, 2]) });
    expect(server.requests.map(({ body }) => [...body])).toEqual([
      [1, 2],
      [1, 2],
    ]);
    const error = await errorOf(transport.json({ ...put, body: new Blob(["x"]).stream() }));
    expect(error.code).toBe("CONNECTION_FAILED");
    expect(server.requests).toHaveLength(3);
  });

  test("at most the allowed number of times", async () => {
    await using server = await ScriptedServer.start(cut, cut, cut, cut);
    const transport = transportOf(server, { maxRetries: 3 });
    expect((await errorOf(transport.json(get))).code).toBe("CONNECTION_FAILED");
    expect(server.requests).toHaveLength(4);
  });

  test("without counting long attempts, if it waits for something", async () => {
    let nowMs = 0;
    vi.spyOn(performance, "now").mockImplementation(() => nowMs);
    const cutLate = async (...args: Parameters<typeof cut>): Promise<void> => {
      nowMs += 60_000;
      await cut(...args);
    };
    await using server = await ScriptedServer.start(cutLate, cutLate, cutLate, cutLate, ok);
    const call: Call = { ...post, idempotencyKey: "key_1", waits: true };
    expect(await transportOf(server, { maxRetries: 1 }).json(call)).toEqual({ ok: true });
  });

  test("not before the time that the daemon requested", async () => {
    const { setTimeout } = globalThis;
    const pauses: unknown[] = [];
    // The timers are also the runtime's; only this delay is shortened.
    vi.spyOn(globalThis, "setTimeout").mockImplementation((resume, ms, ...args) => {
      pauses.push(ms);
      return setTimeout(resume, ms === 7000 ? 0 : ms, ...args);
    });
    const later = failure(429, "QUOTA_EXCEEDED", { "Retry-After": "7" });
    await using server = await ScriptedServer.start(later, ok);
    expect(await transportOf(server).json(get)).toEqual({ ok: true });
    expect(pauses).toContain(7000);
  });
});

describe("a request is not retried", () => {
  test("if it has an effect and no idempotency key", async () => {
    await using server = await ScriptedServer.start(cut);
    expect((await errorOf(transportOf(server).json(post))).code).toBe("CONNECTION_FAILED");
    expect(server.requests).toHaveLength(1);
  });

  test.each([
    [400, "INVALID_REQUEST"],
    [404, "FILE_NOT_FOUND"],
    [409, "CONFLICT"],
    [500, "INTERNAL_ERROR"],
    [504, "COMMAND_TIMEOUT"],
    [507, "STORAGE_FULL"],
  ])("after %i %s", async (status, code) => {
    await using server = await ScriptedServer.start(failure(status, code));
    expect(await errorOf(transportOf(server).json(get))).toMatchObject({ code, status });
    expect(server.requests).toHaveLength(1);
  });

  test("if the daemon requests a very long pause, which the error contains", async () => {
    const later = failure(429, "QUOTA_EXCEEDED", { "Retry-After": "3600" });
    await using server = await ScriptedServer.start(later);
    const error = await errorOf(transportOf(server).json(get));
    expect(error).toMatchObject({ code: "QUOTA_EXCEEDED", retryAfterMs: 3_600_000 });
  });
});

describe("a call is aborted", () => {
  const reason = new Error("enough");

  test("before it starts", async () => {
    await using server = await ScriptedServer.start(ok);
    const call = { ...get, signal: AbortSignal.abort(reason) };
    await expect(transportOf(server).json(call)).rejects.toBe(reason);
    expect(server.requests).toEqual([]);
  });

  test.each([get, post])(
    "while the daemon works on it, and the daemon notices: $method",
    async (call) => {
      const caller = new AbortController();
      const left = Promise.withResolvers<void>();
      await using server = await ScriptedServer.start((response) => {
        response.once("close", () => left.resolve());
        caller.abort(reason);
      });
      const { signal } = caller;
      await expect(transportOf(server).json({ ...call, signal })).rejects.toBe(reason);
      await left.promise;
    },
  );

  test("while it waits for a retry", async () => {
    const caller = new AbortController();
    await using server = await ScriptedServer.start((response, request) => {
      void cut(response, request);
      setTimeout(() => caller.abort(reason), 20);
    });
    const transport = transportOf(server, { retryDelayMs: 60_000 });
    await expect(transport.json({ ...get, signal: caller.signal })).rejects.toBe(reason);
  });

  test("while the body of the response arrives", async () => {
    const caller = new AbortController();
    await using server = await ScriptedServer.start(events(["data: 1\n\n"], "stay"));
    const response = await transportOf(server).open({ ...get, signal: caller.signal });
    const reader = response.body!.getReader();
    await reader.read();
    caller.abort(reason);
    await expect(reader.read()).rejects.toBe(reason);
  });
});

describe("the response timeout", () => {
  const silent = (): void => undefined;

  test("fails the attempt, and a second one can succeed", async () => {
    await using server = await ScriptedServer.start(silent, ok);
    const transport = transportOf(server, { timeoutMs: 500 });
    expect(await transport.json(get)).toEqual({ ok: true });
    expect(server.requests).toHaveLength(2);
  });

  test("is named by the error", async () => {
    await using server = await ScriptedServer.start(silent);
    const error = await errorOf(transportOf(server, { timeoutMs: 20, maxRetries: 0 }).json(get));
    expect(error.code).toBe("CONNECTION_FAILED");
    expect(error.message).toContain("no response within 20 ms");
  });

  test("does not apply to a call that waits for something, nor to a body that has started", async () => {
    const late: typeof ok = (response, request) => {
      setTimeout(() => void ok(response, request), 600);
    };
    const slow: typeof ok = (response) => {
      response.writeHead(200).write("a");
      setTimeout(() => response.end("b"), 600);
    };
    await using server = await ScriptedServer.start(late, slow);
    const transport = transportOf(server, { timeoutMs: 300, maxRetries: 0 });
    expect(await transport.json({ ...get, waits: true })).toEqual({ ok: true });
    expect(await (await transport.open(get)).text()).toBe("ab");
  });
});
