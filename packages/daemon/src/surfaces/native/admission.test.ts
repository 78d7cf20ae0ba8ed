import { METHODS } from "node:http";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { OpenApiDocument } from "./openapi/openapi.ts";
import { ALICES_KEY, HttpFixture } from "../testing/http-fixture.ts";

let http: HttpFixture;
beforeAll(async () => {
  http = await HttpFixture.start({
    allowedHosts: ["sandbox.example", "[2001:db8::1]:8080"],
    allowedOrigins: ["https://app.example"],
  });
});
afterAll(async () => await http[Symbol.asyncDispose]());

const open = ["/healthz", "/readyz"];

/** A request as it is on the wire, and the response. */
async function send(
  method: string,
  path: string,
  headers: readonly string[],
  host = "localhost",
): Promise<{ readonly status: number; readonly head: string; readonly body: string }> {
  const hostLine = host === "" ? [] : [`Host: ${host}`];
  const lines = [`${method} ${path} HTTP/1.1`, ...hostLine, ...headers, "Connection: close"];
  const answer = await http.exchange(`${lines.join("\r\n")}\r\n\r\n`);
  const [head = "", body = ""] = answer.split("\r\n\r\n");
  return { status: Number(head.split(" ")[1]), head: head.toLowerCase(), body };
}

const bearer = `Authorization: Bearer ${ALICES_KEY}`;

describe("the key", () => {
  it("is checked before everything, on every path and method, known or not", async () => {
    const { json } = await http.call("/openapi.json");
    const paths = Object.keys((json as OpenApiDocument).paths)
      .filter((path) => !open.includes(path))
      .map((path) => path.replaceAll(/\{\w+\}/g, "x1"));
    // CONNECT does not request a resource; Node closes the connection.
    const methods = METHODS.filter((method) => method !== "CONNECT");
    const known = paths.flatMap((path) =>
      ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"].map((method) => [method, path]),
    );
    const others = [...paths, ...open].flatMap((path) => [
      ["GET", `${path}.js`],
      ["GET", `${path}/`],
      ["POST", `${path}%20`],
    ]);
    const odd = methods.flatMap((method) => [
      [method, "/"],
      [method, "/v1/sessions"],
      [method, "/%zz"],
      [method, `/v1/sessions/${"x".repeat(5000)}`],
    ]);
    const notOpen = ["POST", "PUT", "DELETE", "OPTIONS"].flatMap((method) =>
      open.map((path) => [method, path]),
    );
    const all = [...known, ...others, ...odd, ...notOpen] as [string, string][];
    expect(all.length).toBeGreaterThan(500);
    const wrong: string[] = [];
    const knock = async ([method, path]: [string, string]): Promise<void> => {
      const response = await fetch(`${http.url}${path}`, { method }).catch(() => undefined);
      // fetch refuses some methods; those use a raw connection.
      const status = response?.status ?? (await send(method, path, [])).status;
      await response?.arrayBuffer();
      if (status !== 401) wrong.push(`${method} ${path}: ${status}`);
    };
    for (let at = 0; at < all.length; at += 50)
      await Promise.all(all.slice(at, at + 50).map(knock));
    expect(wrong).toEqual([]);
  });

  it.each([
    ["none", []],
    ["an empty header", ["Authorization:"]],
    ["an empty key", ["Authorization: Bearer "]],
    ["the scheme in lower case", [`Authorization: bearer ${ALICES_KEY}`]],
    ["the scheme in capitals", [`Authorization: BEARER ${ALICES_KEY}`]],
    ["no scheme", [`Authorization: ${ALICES_KEY}`]],
    ["another scheme", [`Authorization: Token ${ALICES_KEY}`]],
    ["two spaces", [`Authorization: Bearer  ${ALICES_KEY}`]],
    ["a tab", [`Authorization: Bearer\t${ALICES_KEY}`]],
    ["more behind it", [`Authorization: Bearer ${ALICES_KEY} x`]],
    ["a comma behind it", [`Authorization: Bearer ${ALICES_KEY},`]],
    ["the key in capitals", [`Authorization: Bearer ${ALICES_KEY.toUpperCase()}`]],
    ["the beginning of the key", [`Authorization: Bearer ${ALICES_KEY.slice(0, -1)}`]],
    ["the same header twice", [bearer, bearer]],
    ["a wrong one behind the right one", [bearer, "Authorization: Bearer x"]],
    [
      "the key as password, where only pages take it",
      [`Authorization: Basic ${btoa(`x:${ALICES_KEY}`)}`],
    ],
    ["the key as cookie", [`Cookie: key=${ALICES_KEY}`]],
    [
      "the key as subprotocol, where only terminals take it",
      [`Sec-WebSocket-Protocol: sandkasten.v1, sandkasten.bearer.${btoa(ALICES_KEY)}`],
    ],
  ])("is refused as %s", async (_name, headers) => {
    const answer = await send("GET", "/v1/sessions", headers);
    expect(answer.status).toBe(401);
    expect(JSON.parse(answer.body)).toMatchObject({
      error_code: "UNAUTHORIZED",
      request_id: expect.any(String) as string,
    });
    expect(answer.head).toContain("www-authenticate: bearer");
  });

  it("is accepted in its exact form", async () => {
    expect((await send("GET", "/v1/sessions", [bearer])).status).toBe(200);
    expect(
      (await send("GET", "/v1/sessions", [`authorization: Bearer ${ALICES_KEY}`])).status,
    ).toBe(200);
  });

  it("is not needed to check whether the daemon responds", async () => {
    for (const path of open) {
      expect((await send("GET", path, [])).status).toBe(200);
      expect((await send("HEAD", path, [])).status).toBe(200);
    }
  });

  it("is not required for open routes, and only pages of an allowed origin can read the response", async () => {
    for (const path of open) {
      const allowed = await send("GET", path, ["Origin: https://app.example"]);
      expect([allowed.status, allowed.head]).toEqual([
        200,
        expect.stringContaining("access-control-allow-origin: https://app.example"),
      ]);
      const foreign = await send("GET", path, ["Origin: https://evil.example"]);
      expect(foreign.status).toBe(200);
      expect(foreign.head).not.toContain("access-control");
    }
  });

  it("can be the password on pages that people open in a browser", async () => {
    const password = (text: string) => [`Authorization: Basic ${btoa(text)}`];
    const path = "/openapi.json";
    expect((await send("GET", path, password(`anybody:${ALICES_KEY}`))).status).toBe(200);
    for (const wrong of [`:${ALICES_KEY}x`, `${ALICES_KEY}:`, ALICES_KEY, ":"]) {
      const refused = await send("GET", path, password(wrong));
      expect(refused.status).toBe(401);
      expect(refused.head).toContain("www-authenticate: basic");
    }
  });
});

describe("the Host header", () => {
  it.each([
    "localhost",
    "LOCALHOST:1",
    "127.0.0.1:99",
    "127.1.2.3",
    "[::1]:8080",
    "sandbox.example",
    "sandbox.example:443",
    "[2001:db8::1]",
  ])("can be %s", async (host) => {
    expect((await send("GET", "/v1/sessions", [bearer], host)).status).toBe(200);
  });

  it.each([
    "evil.test",
    "localhost.evil.test",
    "127.0.0.1.evil.test",
    "evil.test:80@localhost",
    "localhost@evil.test",
    "sandbox.example.",
    "10.0.0.1",
    "[::2]",
    "",
  ])("must not be %j", async (host) => {
    for (const headers of [[bearer], []]) {
      const answer = await send("GET", "/v1/sessions", headers, host);
      expect(answer.status).toBe(403);
      expect(JSON.parse(answer.body)).toMatchObject({ error_code: "PERMISSION_DENIED" });
    }
  });

  it("must occur exactly once", async () => {
    expect((await send("GET", "/v1/sessions", [bearer, "Host: evil.test"])).status).toBe(403);
  });
});

describe("the Origin header", () => {
  it.each([
    "https://evil.test",
    "null",
    "http://localhost:1",
    "https://app.example.evil.test",
    "https://APP.example",
  ])("refuses %s, without CORS headers", async (origin) => {
    const tries = [
      await send("GET", "/v1/sessions", [bearer, `Origin: ${origin}`]),
      await send("POST", "/v1/sessions", [
        bearer,
        `Origin: ${origin}`,
        "Content-Type: text/plain",
        "Content-Length: 0",
      ]),
      await send("OPTIONS", "/v1/sessions", [
        `Origin: ${origin}`,
        "Access-Control-Request-Method: POST",
      ]),
    ];
    for (const answer of tries) {
      expect(answer.status).toBe(403);
      expect(answer.head).not.toContain("access-control");
    }
  });

  it("accepts our own pages", async () => {
    const answer = await send(
      "GET",
      "/v1/sessions",
      [bearer, "Origin: http://localhost:8080"],
      "localhost:8080",
    );
    expect(answer.status).toBe(200);
    expect(answer.head).not.toContain("access-control");
  });

  it("accepts pages that the administrator allows, which still need the key", async () => {
    const origin = "Origin: https://app.example";
    const answer = await send("GET", "/v1/sessions", [bearer, origin]);
    expect(answer.status).toBe(200);
    expect(answer.head).toContain("access-control-allow-origin: https://app.example");
    expect(answer.head).toContain("vary: origin");
    expect((await send("GET", "/v1/sessions", [origin])).status).toBe(401);
    const asked = await send("OPTIONS", "/v1/sessions", [
      origin,
      "Access-Control-Request-Method: POST",
    ]);
    expect(asked.status).toBe(204);
    expect(asked.head).toContain("access-control-allow-headers: authorization");
    for (const sent of ["if-match", "if-none-match", "traceparent", "tracestate"])
      expect(asked.head).toMatch(new RegExp(`allow-headers: .*\\b${sent}\\b`));
    expect(asked.head).not.toContain("access-control-allow-credentials");
    expect((await send("OPTIONS", "/v1/sessions", [origin])).status).toBe(401);
  });
});
