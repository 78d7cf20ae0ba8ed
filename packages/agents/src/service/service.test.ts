/** Bodies, the error format, and information that must not leave the service. */
import { connect } from "node:net";
import type { AddressInfo } from "node:net";
import type { FastifyInstance } from "fastify";
import { pino } from "pino";
import { afterEach, expect, test } from "vitest";
import { z } from "zod";
import { parseBody } from "./parse-request.ts";
import { ServiceError } from "./service-error.ts";
import { buildService } from "./service.ts";

let app: FastifyInstance | undefined;
afterEach(async () => await app?.close());

function service(): FastifyInstance {
  app = buildService({
    log: pino({ level: "silent" }),
    modules: [
      (routes) => {
        routes.post("/echo", (request) => ({ body: parseBody(z.unknown(), request.body) }));
        routes.post("/strict", (request) => parseBody(z.strictObject({}), request.body));
        routes.get("/refuse", () => {
          throw new ServiceError("CONFLICT", "It has ended already.", { status: "failed" });
        });
        routes.get("/crash", () => {
          throw new Error("ENOENT: /var/lib/secret/place");
        });
      },
    ],
  });
  return app;
}

const json = { "content-type": "application/json" };

test("refusals have the error format of the daemon", async () => {
  const answer = await service().inject({ url: "/refuse", headers: { "x-request-id": "r-1" } });
  expect([answer.statusCode, answer.json()]).toEqual([
    409,
    {
      error_code: "CONFLICT",
      message: "It has ended already.",
      details: { status: "failed" },
      request_id: "r-1",
    },
  ]);
});

test("internal errors are returned without their cause", async () => {
  const answer = await service().inject({ url: "/crash" });
  expect(answer.statusCode).toBe(500);
  expect(answer.json()).toMatchObject({ error_code: "INTERNAL_ERROR" });
  expect(answer.body).not.toMatch(/ENOENT|secret|at /);
});

test("only JSON is accepted, so no form of a foreign page can start anything", async () => {
  const form = { url: "/echo", method: "POST", payload: '{"a":1}' } as const;
  for (const type of ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"]) {
    const answer = await service().inject({ ...form, headers: { "content-type": type } });
    expect([answer.statusCode, answer.json()]).toMatchObject([
      415,
      { error_code: "UNSUPPORTED_MEDIA_TYPE" },
    ]);
  }
  const answer = await service().inject({ ...form, headers: json });
  expect(answer.json()).toEqual({ body: { a: 1 } });
});

test("bodies that are invalid, poisoned or too large are refused", async () => {
  const post = async (payload: string) =>
    await service().inject({ url: "/echo", method: "POST", headers: json, payload });
  expect((await post("{")).json()).toMatchObject({ error_code: "INVALID_REQUEST" });
  expect((await post("")).json()).toMatchObject({ error_code: "INVALID_REQUEST" });
  const deep = (levels: number): string => "[".repeat(levels) + "]".repeat(levels);
  expect((await post(deep(200))).statusCode).toBe(200);
  expect((await post(deep(500_000))).json()).toMatchObject({
    error_code: "INVALID_REQUEST",
    message: "The body is nested more than 200 levels deep.",
  });
  expect((await post('{"__proto__":{"a":1}}')).statusCode).toBe(400);
  expect((await post(JSON.stringify("x".repeat(17_000_000)))).json()).toMatchObject({
    error_code: "PAYLOAD_TOO_LARGE",
  });
});

test("a body of very many values is refused before it is parsed", async () => {
  const post = async (values: number) =>
    await service().inject({
      url: "/echo",
      method: "POST",
      headers: json,
      payload: `[${"1,".repeat(values - 2)}1]`,
    });
  expect((await post(50_000)).statusCode).toBe(200);
  const refused = await post(50_001);
  expect([refused.statusCode, refused.json()]).toMatchObject([
    400,
    { message: "The body is made of more than 50000 values." },
  ]);
});

test("an error does not list everything that is wrong with a body", async () => {
  const names = Array.from({ length: 20_000 }, (_, index) => `unknown${index}`);
  const answer = await service().inject({
    url: "/strict",
    method: "POST",
    headers: json,
    payload: JSON.stringify(Object.fromEntries(names.map((name) => [name, 1]))),
  });
  expect(answer.statusCode).toBe(400);
  expect(answer.json()).toMatchObject({
    message: expect.stringContaining('"unknown0"') as string,
  });
  expect(answer.body.length).toBeLessThan(1000);
});

test("a client that leaves in the middle of its body is not an error of the service", async () => {
  const lines: string[] = [];
  const log = pino({ level: "warn" }, { write: (line: string) => void lines.push(line) });
  const served = buildService({
    log,
    modules: [(routes) => routes.post("/echo", () => ({ ok: true }))],
  });
  await served.listen({ host: "127.0.0.1", port: 0 });
  try {
    const closed = Promise.withResolvers<void>();
    served.server.once("connection", (socket) => socket.once("close", () => closed.resolve()));
    const socket = connect((served.server.address() as AddressInfo).port, "127.0.0.1");
    const head = "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json";
    socket.write(`${head}\r\nContent-Length: 100\r\n\r\n{`, () => socket.destroy());
    await closed.promise;
  } finally {
    await served.close();
  }
  expect(lines).toEqual([]);
});

test("a client that never finishes its headers is disconnected", async () => {
  const slow = buildService({
    log: pino({ level: "silent" }),
    modules: [],
    headersTimeoutMs: 200,
  });
  await slow.listen({ host: "127.0.0.1", port: 0 });
  try {
    const socket = connect((slow.server.address() as AddressInfo).port, "127.0.0.1");
    const { promise: closed, resolve } = Promise.withResolvers<void>();
    // A reset also ends it.
    socket
      .on("error", () => undefined)
      .on("close", () => resolve())
      .resume();
    socket.write("GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: ");
    const drip = setInterval(() => socket.write("x"), 20);
    await closed;
    clearInterval(drip);
  } finally {
    await slow.close();
  }
});

test("an unknown path and an unroutable URL have the error format, too", async () => {
  expect((await service().inject({ url: "/nothing" })).json()).toMatchObject({
    error_code: "ROUTE_NOT_FOUND",
  });
  expect((await service().inject({ url: "/%E0%A4%A" })).json()).toMatchObject({
    error_code: "INVALID_REQUEST",
  });
});
