/**
 * Clients and web pages that try to exceed their rights, against the real HTTP server and a real
 * daemon.
 */
import { request } from "node:http";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { SandboxClient } from "@sandkasten/sdk";
import { parseSandboxSettings } from "@sandkasten/tools";
import { afterAll, beforeAll, expect, it } from "vitest";
import { TestDaemon } from "../../../tests/support/test-daemon.ts";
import { serveHttp } from "./serve-http.ts";
import type { RunningMcpServer } from "./serve-http.ts";

const KEY = "the-key-of-the-mcp-server";
const JSON_HEADERS = {
  "content-type": "application/json",
  accept: "application/json, text/event-stream",
};

let daemon: TestDaemon;
let server: RunningMcpServer;
beforeAll(async () => {
  daemon = await TestDaemon.start();
  server = await start(daemon.url);
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});

async function start(daemonUrl: string): Promise<RunningMcpServer> {
  return await serveHttp({
    client: new SandboxClient({ baseUrl: daemonUrl, apiKey: daemon.apiKey, maxRetries: 0 }),
    settings: parseSandboxSettings({ mode: "code" }),
    host: "127.0.0.1",
    port: 0,
    apiKey: KEY,
    onFailure: () => undefined,
  });
}

interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly error?: { readonly code: number; readonly message: string };
  readonly result?: Record<string, unknown>;
  readonly text: string;
}

/** A raw message, and the first response to it. */
async function send(
  message: object | string,
  headers: Readonly<Record<string, string>> = {},
  url = server.url,
): Promise<Answer> {
  const response = await fetch(url, {
    method: "POST",
    headers: { authorization: `Bearer ${KEY}`, ...JSON_HEADERS, ...headers },
    body: typeof message === "string" ? message : JSON.stringify(message),
  });
  const text = await response.text();
  const data = /^data: (?<json>\{.*)$/m.exec(text)?.groups?.["json"] ?? text;
  const parsed = (data.startsWith("{") ? JSON.parse(data) : {}) as Partial<Answer>;
  const { error, result } = parsed;
  return {
    status: response.status,
    headers: response.headers,
    text,
    ...(error !== undefined && { error }),
    ...(result !== undefined && { result }),
  };
}

const initialize = {
  jsonrpc: "2.0",
  id: 1,
  method: "initialize",
  params: {
    protocolVersion: "2025-06-18",
    capabilities: {},
    clientInfo: { name: "attacker", version: "1" },
  },
};

async function openSession(url = server.url): Promise<Record<string, string>> {
  const { headers, result } = await send(initialize, {}, url);
  expect(result?.["protocolVersion"]).toBe("2025-06-18");
  const session = { "mcp-session-id": headers.get("mcp-session-id") ?? "" };
  await send({ jsonrpc: "2.0", method: "notifications/initialized" }, session, url);
  return session;
}

const call = (id: number, method: string, params: object): object => ({
  jsonrpc: "2.0",
  id,
  method,
  params,
});

const exec = (cmd: string, more: object = {}): object =>
  call(2, "tools/call", { name: "sandbox_exec", arguments: { cmd, ...more } });

async function sandboxOf(session: Record<string, string>): Promise<string> {
  const { result = {} } = await send(exec("echo mine > /workspace/secret"), session);
  return (result["structuredContent"] as { readonly sandbox_id: string }).sandbox_id;
}

it("every request without the key, or with another one, is refused", async () => {
  for (const authorization of [
    "",
    "Bearer wrong",
    `Basic ${KEY}`,
    `Bearer ${KEY}x`,
    `bearer ${KEY}`,
  ]) {
    const { status, headers } = await send(initialize, { authorization });
    expect(status).toBe(401);
    expect(headers.get("www-authenticate")).toBe("Bearer");
  }
  const bare = await fetch(server.url);
  expect(bare.status).toBe(401);
});

it("the server uses the client's version of the protocol if it knows it, and its own otherwise", async () => {
  const versionFor = async (protocolVersion: string): Promise<unknown> => {
    const params = { ...initialize.params, protocolVersion };
    return (await send({ ...initialize, params })).result?.["protocolVersion"];
  };
  for (const known of ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
    expect(await versionFor(known)).toBe(known);
  expect(await versionFor("1999-12-31")).toBe("2025-11-25");
});

it("a page with a rebound name, or of a foreign origin, is refused", async () => {
  const { port } = new URL(server.url);
  const status = await new Promise<number>((resolve, reject) => {
    const rebound = request(
      {
        host: "127.0.0.1",
        port,
        path: "/mcp",
        method: "POST",
        headers: { host: "evil.test", authorization: `Bearer ${KEY}` },
      },
      (response) => resolve(response.statusCode ?? 0),
    );
    rebound.once("error", reject).end("{}");
  });
  expect(status).toBe(403);
  expect((await send(initialize, { origin: "https://evil.test" })).status).toBe(403);
  expect((await send(initialize, { origin: "http://localhost:3000" })).status).toBe(200);
});

it("a session id that never existed and one whose session has ended get the same response", async () => {
  const session = await openSession();
  const ended = await fetch(server.url, {
    method: "DELETE",
    headers: { authorization: `Bearer ${KEY}`, ...session },
  });
  expect(ended.status).toBe(200);
  const after = await send(call(2, "tools/list", {}), session);
  const never = await send(call(2, "tools/list", {}), {
    "mcp-session-id": "00000000-0000-4000-8000-000000000000",
  });
  expect([after.status, never.status]).toEqual([404, 404]);
  expect(after.text).toBe(never.text);
});

it("another session's sandbox does not exist, by its id, its key, its alias or a resource", async () => {
  const victim = await openSession();
  const id = await sandboxOf(victim);
  const { body } = await daemon.call("GET", `/v1/sessions/${id}`);
  const attacker = await openSession();
  for (const named of [id, body["key"], body["session_alias"], "no-such-sandbox"]) {
    const { result } = await send(exec("cat /workspace/secret", { sandbox_id: named }), attacker);
    expect(result).toMatchObject({ isError: true });
    expect(JSON.stringify(result)).not.toContain("mine");
  }
  for (const method of ["resources/read", "resources/subscribe"]) {
    const uri = `sandbox://${id}/workspace/secret`;
    expect((await send(call(3, method, { uri }), attacker)).error).toBeDefined();
    expect((await send(call(3, method, { uri }), victim)).error).toBeUndefined();
  }
  const { result } = await send(call(4, "resources/list", {}), attacker);
  expect(result?.["resources"]).toEqual([]);
});

it("no spelling of a path leaves the sandbox or breaks the server", async () => {
  const session = await openSession();
  const id = await sandboxOf(session);
  for (const path of [
    "../../../../etc/shadow",
    "workspace/%2e%2e/%2e%2e/etc/shadow",
    "proc/1/root/etc/shadow",
    "workspace/%00secret",
    "workspace/%",
    "",
    "dev/zero",
    "a/".repeat(5000),
  ]) {
    const answer = await send(
      call(3, "resources/read", { uri: `sandbox://${id}/${path}` }),
      session,
    );
    expect(answer.error).toBeDefined();
  }
  for (const uri of [
    "file:///etc/shadow",
    "sandbox://",
    `sandbox://${id}`,
    "sandbox://../etc/shadow",
    7,
  ])
    expect((await send(call(3, "resources/read", { uri }), session)).error).toBeDefined();
  expect((await send(exec("cat /workspace/secret"), session)).result).toMatchObject({
    structuredContent: { stdout: "mine\n" },
  });
});

it("many files are listed in pages, each once, and large ones are not read completely", async () => {
  const session = await openSession();
  const id = await sandboxOf(session);
  await send(exec("cd /workspace && seq 449 | xargs touch && truncate -s 10485761 large"), session);
  const uris: string[] = [];
  let cursor: unknown;
  do {
    const { result = {} } = await send(call(3, "resources/list", { cursor }), session);
    const resources = result["resources"] as readonly { readonly uri: string }[];
    expect(resources.length).toBeLessThanOrEqual(200);
    uris.push(...resources.map(({ uri }) => uri));
    cursor = result["nextCursor"];
  } while (cursor !== undefined);
  expect(uris).toHaveLength(451);
  expect(new Set(uris).size).toBe(451);
  for (const wrong of ["-1", "x", "1e9"])
    expect((await send(call(3, "resources/list", { cursor: wrong }), session)).error).toBeDefined();
  const large = `sandbox://${id}/workspace/large`;
  const { error } = await send(call(4, "resources/read", { uri: large }), session);
  expect(error?.message).toContain("larger than 10485760 bytes");
  const outside = `sandbox://${id}/etc/hostname`;
  const refused = await send(call(5, "resources/subscribe", { uri: outside }), session);
  expect(refused.error?.message).toContain("below /workspace");
});

it("huge and malformed messages are refused, and the next one is served", async () => {
  const session = await openSession();
  const huge = exec("x".repeat(20 * 1024 * 1024));
  expect((await send(huge, session)).status).toBe(413);
  expect((await send("{not json", session)).status).toBe(400);
  const long = await send(exec("x".repeat(2 * 1024 * 1024)), session);
  expect(long.result).toMatchObject({ isError: true });
  expect(JSON.stringify(long.result)).toContain("INVALID_INPUT");
  expect((await send(call(2, "tools/list", {}), session)).result).toHaveProperty("tools");
});

it("subscriptions and sessions are limited", async () => {
  const session = await openSession();
  const id = await sandboxOf(session);
  const subscribe = (n: number) =>
    send(call(n, "resources/subscribe", { uri: `sandbox://${id}/workspace/${n}` }), session);
  for (let n = 0; n < 256; n++) expect((await subscribe(n)).error).toBeUndefined();
  expect((await subscribe(256)).error?.message).toContain("256 subscriptions");
  await using small = await start(daemon.url);
  for (let n = 0; n < 256; n++) await openSession(small.url);
  expect((await send(initialize, {}, small.url)).status).toBe(503);
});

it("names without sandboxes are evicted for others, and those with sandboxes stay", async () => {
  await using small = await start(daemon.url);
  const connect = async (name: string): Promise<Client> => {
    const client = new Client(
      { name: "test", version: "1" },
      { versionNegotiation: { mode: { pin: "2026-07-28" } } },
    );
    const headers = { authorization: `Bearer ${KEY}` };
    const transport = new StreamableHTTPClientTransport(new URL(`${small.url}/${name}`), {
      requestInit: { headers },
    });
    await client.connect(transport);
    return client;
  };
  const run = async (client: Client, cmd: string) =>
    (await client.callTool({ name: "sandbox_exec", arguments: { cmd } })).structuredContent;
  const first = await connect("used");
  await run(first, "NAME=kept");
  for (let n = 0; n < 256; n++) await (await connect(`name-${n}`)).close();
  const last = await connect("one-more");
  expect((await last.listTools()).tools).toHaveLength(9);
  expect(await run(first, "echo $NAME")).toMatchObject({ stdout: "kept\n" });
  for (const client of [first, last]) await client.close();
});

it("a session cannot cancel the request of another with the same request id", async () => {
  const victim = await openSession();
  const id = await sandboxOf(victim);
  const running = send(exec("echo > /workspace/begun; sleep 2; echo finished"), victim);
  const session = await new SandboxClient({
    baseUrl: daemon.url,
    apiKey: daemon.apiKey,
  }).getSession(id);
  const names = async (): Promise<readonly string[]> =>
    (await Array.fromAsync(session.files.list("/workspace"))).map(({ name }) => name);
  await expect.poll(names).toContain("begun");
  const attacker = await openSession();
  for (let requestId = 0; requestId < 10; requestId++)
    await send(
      { jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId } },
      attacker,
    );
  expect((await running).result).toMatchObject({ structuredContent: { stdout: "finished\n" } });
});

it("an unreachable daemon is reported as such, without its address", async () => {
  await using lost = await start("http://127.0.0.1:9");
  const session = await openSession(lost.url);
  const { result } = await send(exec("true"), session, lost.url);
  expect(result).toMatchObject({ isError: true });
  expect(JSON.stringify(result)).not.toContain("127.0.0.1");
});
