import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { BOBS_KEY, HttpFixture } from "../testing/http-fixture.ts";
import type { AgentServiceLink } from "./agent-forwarding.ts";

interface Asked {
  readonly method: string | undefined;
  readonly url: string | undefined;
  readonly headers: IncomingMessage["headers"];
  readonly body: string;
}

const asked: Asked[] = [];
/** Resolves when the reader of events has left. */
const left = Promise.withResolvers<void>();
const agents: AgentServiceLink = {};
const service = createServer((request, response) => {
  void text(request).then((body) => {
    const { method, url, headers } = request;
    asked.push({ method, url, headers, body });
    if (url?.endsWith("/events") === true) {
      response.setHeader("content-type", "text/event-stream");
      response.write("data: first\n\n");
      response.once("close", () => left.resolve());
      return;
    }
    response.statusCode = url?.includes("missing") === true ? 404 : 200;
    response.setHeader("content-type", "application/json").end('{"runs":[]}');
  });
});

const opened = new AsyncDisposableStack();
let http: HttpFixture;
beforeAll(async () => {
  await new Promise<void>((resolve) => service.listen(0, "127.0.0.1", resolve));
  opened.defer(() => void service.close());
  opened.defer(() => service.closeAllConnections());
  http = opened.use(await HttpFixture.start({ dashboard: { directory: "/nonexistent", agents } }));
});
afterAll(() => opened.disposeAsync());
beforeEach(() => {
  asked.length = 0;
  const { port } = service.address() as AddressInfo;
  agents.address = { url: `http://127.0.0.1:${port}/`, apiKey: "key-of-the-agents" };
});

const RUNS = "/v1/agent-service/v1/runs";

describe("the connection to the agent service", () => {
  it("is available to administrators if the daemon knows the service", async () => {
    expect((await http.call("/v1/agent-service")).json).toEqual({ available: true });
    expect((await http.call("/v1/agent-service", { key: BOBS_KEY })).json).toEqual({
      available: false,
    });
    agents.address = undefined;
    expect((await http.call("/v1/agent-service")).json).toEqual({ available: false });
    expect((await http.call(RUNS)).status).toBe(404);
  });

  it("uses the service's key and nothing of the visitor's", async () => {
    const { status, json } = await http.call(`${RUNS}?limit=5`, {
      headers: { cookie: "a=b", "x-secret": "c", origin: http.url },
    });
    expect([status, json]).toEqual([200, { runs: [] }]);
    const [{ url, headers }] = asked as [Asked];
    expect([url, headers.authorization]).toEqual(["/v1/runs?limit=5", "Bearer key-of-the-agents"]);
    expect(headers).not.toHaveProperty("cookie");
    expect(headers).not.toHaveProperty("x-secret");
    expect(headers).not.toHaveProperty("origin");
  });

  it("passes on decisions and refusals", async () => {
    const path = "/v1/agent-service/v1/workflow-runs/wfr_1/approve";
    await http.call(path, { body: { comment: "fine" } });
    expect(asked[0]).toMatchObject({
      method: "POST",
      url: "/v1/workflow-runs/wfr_1/approve",
      body: '{"comment":"fine"}',
    });
    expect((await http.call(`${RUNS}/missing`)).status).toBe(404);
  });

  it("streams events as they arrive, and ends when the reader leaves", async () => {
    const gone = new AbortController();
    const response = await http.fetch(`${RUNS}/run_1/events`, { signal: gone.signal });
    const reader = response.body?.getReader();
    const { value } = (await reader?.read()) ?? {};
    expect(new TextDecoder().decode(value)).toBe("data: first\n\n");
    gone.abort();
    await left.promise;
  });

  it("is closed to other keys, and to everything except runs", async () => {
    expect((await http.call(RUNS, { key: BOBS_KEY })).status).toBe(403);
    expect((await http.call(RUNS, { key: null })).status).toBe(401);
    for (const [method, path] of [
      ["POST", "/v1/agent-service/execute"],
      ["POST", "/v1/agent-service/v1/workflows/publish/runs"],
      ["GET", "/v1/agent-service/metrics"],
      ["GET", "/v1/agent-service/v1/runs/../../metrics"],
      ["GET", "/v1/agent-service/v1/runs/%2e%2e"],
      ["GET", "/v1/agent-service//elsewhere.example/v1/runs"],
      ["GET", "/v1/agent-service@elsewhere.example/v1/runs"],
      ["POST", "/v1/agent-service/v1/runs/run_1"],
      ["GET", "/v1/agent-service/v1/workflow-runs/wfr_1/approve"],
    ] as const) {
      const body = method === "POST" ? {} : undefined;
      const { status } = await http.call(path, { method, ...(body && { body }) });
      expect([method, path, status]).toEqual([method, path, 404]);
    }
    expect(asked).toEqual([]);
  });

  it("returns an error if the agent service does not respond", async () => {
    agents.address = { url: "http://127.0.0.1:9" };
    const { status, json } = await http.call(RUNS);
    expect([status, json.message]).toEqual([503, "The agent service does not respond."]);
  });
});
