/** Requests that must be refused: foreign pages, rebound names, missing and wrong keys. */
import { request as httpRequest } from "node:http";
import type { AddressInfo } from "node:net";
import type { FastifyInstance } from "fastify";
import { pino } from "pino";
import { afterEach, expect, test } from "vitest";
import { buildService } from "./service.ts";

let app: FastifyInstance | undefined;
afterEach(async () => await app?.close());

async function serve(options: { apiKey?: string; allowedHosts?: string[] } = {}): Promise<number> {
  app = buildService({
    ...options,
    log: pino({ level: "silent" }),
    modules: [(routes) => routes.get("/secret", () => ({ secret: true }))],
  });
  await app.listen({ host: "127.0.0.1", port: 0 });
  return (app.server.address() as AddressInfo).port;
}

/** Sends the headers unchanged, even duplicates, which `fetch` does not do. */
function get(port: number, headers: readonly string[], path = "/secret") {
  const { promise, resolve, reject } = Promise.withResolvers<{ status: number; body: string }>();
  const request = httpRequest({ host: "127.0.0.1", port, path, headers, setHost: false });
  request.on("error", reject).on("response", (response) => {
    let body = "";
    response.setEncoding("utf8").on("data", (text: string) => (body += text));
    response.on("end", () => resolve({ status: response.statusCode ?? 0, body }));
  });
  request.end();
  return promise;
}

const host = ["Host", "127.0.0.1:8587"];

test("on loopback, no key is needed unless one is configured", async () => {
  const port = await serve();
  expect(await get(port, host)).toEqual({ status: 200, body: '{"secret":true}' });
  expect((await get(port, ["Host", "localhost"])).status).toBe(200);
});

test("with a key, only requests with the key are admitted, and others learn nothing", async () => {
  const port = await serve({ apiKey: "right" });
  for (const headers of [
    [],
    ["Authorization", "Bearer wrong"],
    ["Authorization", "Bearer "],
    ["Authorization", "Basic cmlnaHQ6cmlnaHQ="],
    ["Authorization", "x Bearer right"],
    ["Authorization", "Bearer right x"],
    ["Authorization", "Bearer right,"],
    ["Authorization", "Bearer right", "Authorization", "Bearer wrong"],
  ]) {
    const answer = await get(port, [...host, ...headers]);
    expect(answer.body).not.toContain("secret");
    expect([401, 403]).toContain(answer.status);
  }
  expect((await get(port, [...host, "Authorization", "Bearer right"])).status).toBe(200);
  expect((await get(port, host, "/nothing")).status).toBe(401);
  expect((await get(port, host, "/healthz")).status).toBe(200);
});

test("a page whose name was rebound to this machine is refused", async () => {
  const port = await serve();
  for (const name of [
    "attacker.example",
    "attacker.example:8587",
    "127.0.0.1.attacker.example",
    "192.0.2.1:8587",
    "[2001:db8::1]:8587",
    "",
  ])
    expect((await get(port, ["Host", name])).status).toBe(403);
  expect((await get(port, [])).status).toBe(403);
  expect((await get(port, [...host, "Host", "attacker.example"])).status).toBe(403);
});

test("a name that the administrator allows is accepted", async () => {
  const port = await serve({ allowedHosts: ["agents.example"] });
  expect((await get(port, ["Host", "agents.example:8587"])).status).toBe(200);
  expect((await get(port, ["Host", "other.example"])).status).toBe(403);
});

test("a page of a foreign origin is refused, even with the key", async () => {
  const port = await serve({ apiKey: "right" });
  const key = ["Authorization", "Bearer right"];
  for (const origin of [
    "http://attacker.example",
    "null",
    "http://127.0.0.1:9999",
    "http://127.0.0.1:8587.attacker.example",
    "http://attacker.example/http://127.0.0.1:8587",
  ])
    expect((await get(port, [...host, ...key, "Origin", origin])).status).toBe(403);
  const own = await get(port, [...host, ...key, "Origin", "http://127.0.0.1:8587"]);
  expect(own.status).toBe(200);
});
