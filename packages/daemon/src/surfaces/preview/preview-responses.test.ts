import { once } from "node:events";
import { createServer as createTcpServer } from "node:net";
import type { Socket } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ALICES_KEY } from "../testing/http-fixture.ts";
import { PreviewFixture } from "../testing/preview-fixture.ts";
import type { PreviewAnswer } from "../testing/preview-fixture.ts";

const bearer = { authorization: `Bearer ${ALICES_KEY}` };

/** The bytes that the application writes on every connection. */
let script: (socket: Socket) => void;
let fixture: PreviewFixture;
let token: string;
beforeAll(async () => {
  const server = createTcpServer((socket) => socket.once("data", () => script(socket)));
  fixture = await PreviewFixture.start(server, { stallTimeoutMs: 300 });
  token = await fixture.token();
});
afterAll(async () => await fixture[Symbol.asyncDispose]());

async function answer(
  head: readonly string[],
  by: "host" | "path" | "link" = "host",
): Promise<PreviewAnswer> {
  script = (socket) => socket.end(`HTTP/1.1 200 OK\r\n${head.join("\r\n")}\r\n\r\nbody`);
  const path = `/v1/sessions/${fixture.id}/proxy/8000`;
  if (by === "host") return await fixture.ask(fixture.host(), { headers: bearer });
  if (by === "path") return await fixture.ask("localhost", { path: `${path}/`, headers: bearer });
  return await fixture.ask("localhost", { path: `${path}~${token}/`, headers: { origin: "null" } });
}

const HOSTILE = [
  "Set-Cookie: a=b; Domain=localhost; Path=/",
  "Set-Cookie: c=d; domain = .example.net ;HttpOnly",
  "Set-Cookie: sandkasten_preview=forged; Path=/",
  "Clear-Site-Data: *",
  "Strict-Transport-Security: max-age=31536000",
  'Alt-Svc: h2="evil.test:443"',
  "Service-Worker-Allowed: /",
  "WWW-Authenticate: Basic realm=x",
  "Access-Control-Allow-Origin: https://evil.test",
  "Access-Control-Allow-Credentials: true",
  "Connection: X-Hop, close",
  "X-Hop: 1",
  "Keep-Alive: timeout=1",
  "X-Kept: 1",
];

describe("a response from the sandbox", () => {
  it("sets cookies for its own host only, never ours, and no headers about connections", async () => {
    const { headers, text } = await answer(HOSTILE);
    expect(headers["set-cookie"]).toEqual(["a=b; Path=/", "c=d;HttpOnly"]);
    expect(headers).toMatchObject({ "x-kept": "1", "clear-site-data": "*" });
    for (const name of ["alt-svc", "x-hop", "content-security-policy"])
      expect(headers).not.toHaveProperty([name]);
    expect(headers["keep-alive"]).not.toBe("timeout=1");
    expect(text).toBe("body");
  });

  it("by path, cannot affect the daemon's origin, and is isolated from it", async () => {
    for (const by of ["path", "link"] as const) {
      const { headers } = await answer(HOSTILE, by);
      expect(headers).toMatchObject({ "x-kept": "1", "referrer-policy": "no-referrer" });
      const policy = headers["content-security-policy"];
      expect(policy).toMatch(/^sandbox /);
      expect(policy).not.toContain("allow-same-origin");
      expect(policy).not.toContain("allow-top-navigation");
      for (const line of HOSTILE.slice(0, -1)) {
        const name = line.split(":")[0]?.toLowerCase() ?? "";
        const isOurs = name === "connection" || name === "keep-alive";
        if (!isOurs && !(by === "link" && name === "access-control-allow-origin"))
          expect(Object.keys(headers)).not.toContain(name);
      }
      expect(headers["access-control-allow-origin"]).toBe(by === "link" ? "*" : undefined);
    }
    const own = await answer(["Content-Security-Policy: default-src 'self'"], "link");
    expect(own.headers["content-security-policy"]).toMatch(/^default-src 'self', sandbox /);
  });

  it("can redirect elsewhere, which the daemon leaves to the visitor", async () => {
    const inside = await answer(["Location: /login"], "path");
    expect(inside.headers.location).toBe(`/v1/sessions/${fixture.id}/proxy/8000/login`);
    for (const location of ["http://127.0.0.1:2375/containers/json", "//evil.test/", "next"])
      for (const by of ["host", "path"] as const) {
        script = (socket) => socket.end(`HTTP/1.1 302 Found\r\nLocation: ${location}\r\n\r\n`);
        const path = by === "host" ? "/" : `/v1/sessions/${fixture.id}/proxy/8000/`;
        const host = by === "host" ? fixture.host() : "localhost";
        const got = await fixture.ask(host, { path, headers: bearer });
        expect([got.status, got.headers.location]).toEqual([302, location]);
      }
  });

  it("redirects a port without a slash to its root", async () => {
    const path = `/v1/sessions/${fixture.id}/proxy/8000?a=b`;
    expect(await fixture.ask("localhost", { path, headers: bearer })).toMatchObject({
      status: 307,
      headers: { location: `/v1/sessions/${fixture.id}/proxy/8000/?a=b` },
    });
  });

  it.each([
    ["nothing", ""],
    ["no HTTP", "SSH-2.0-OpenSSH_9.2\r\n"],
    ["half a head", "HTTP/1.1 200 OK\r\nContent-"],
    ["a head without an end", `HTTP/1.1 200 OK\r\nX: ${"x".repeat(200_000)}`],
    ["two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"],
    [
      "a length and chunks",
      "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ],
    [
      "an upgrade that was not requested",
      "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",
    ],
  ])("is a clear error if the application sends %s", async (_name, text) => {
    script = (socket) => socket.end(text);
    const got = await fixture.ask(fixture.host(), { headers: bearer });
    expect(got.status).toBe(502);
    expect(JSON.parse(got.text)).toMatchObject({ error_code: "PORT_FAILED" });
  });

  it("breaks off if it ends too early, so a part cannot look complete", async () => {
    script = (socket) => socket.end("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort");
    await expect(fixture.ask(fixture.host(), { headers: bearer })).rejects.toThrow();
  });

  it("is streamed: events one by one, and the head before them", async () => {
    let server: Socket | undefined;
    script = (socket) => {
      server = socket;
      socket.write("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n");
    };
    const response = await fixture.open(fixture.host(), { headers: bearer });
    for (const event of ["data: 1\n\n", "data: 2\n\n"]) {
      server?.write(event);
      const [bytes] = (await once(response, "data")) as [Buffer];
      expect(bytes.toString()).toBe(event);
    }
    server?.end();
    await once(response, "end");
  });

  it("can arrive early, while the client still sends", async () => {
    script = (socket) =>
      socket.end("HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno");
    const body = Buffer.alloc(20_000_000);
    const got = await fixture
      .ask(fixture.host(), { method: "POST", headers: bearer, body })
      // A client that is still writing can see the connection's end first.
      .catch((error: NodeJS.ErrnoException) => ({
        status: error.code === "EPIPE" || error.code === "ECONNRESET" ? 413 : 0,
      }));
    expect(got.status).toBe(413);
  });

  it("waits in the sandbox if the client does not read, delays no other response, and finally breaks off", async () => {
    let sent = 0;
    const chunk = Buffer.alloc(65_536, "endless ");
    script = (socket) => {
      socket.write("HTTP/1.1 200 OK\r\n\r\n");
      const more = (): void => {
        while (!socket.destroyed && socket.write(chunk)) sent += chunk.byteLength;
        sent += chunk.byteLength;
      };
      socket.on("drain", more);
      more();
    };
    const response = await fixture.open(fixture.host(), { headers: bearer });
    response.pause();
    const closed = once(response.socket, "close");
    const before = fixture.http.logLines.length;
    script = (socket) => socket.end("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    expect((await fixture.ask(fixture.host(), { headers: bearer })).text).toBe("ok");
    const isCut = (): boolean =>
      fixture.http.logLines.slice(before).some((line) => line.includes("cut_off"));
    while (!isCut()) await new Promise(setImmediate);
    // What the kernel, the client and the daemon buffer; an endless response would be gigabytes by now.
    expect(sent).toBeLessThan(48 * 2 ** 20);
    response.resume().on("error", () => undefined);
    await closed;
    while (fixture.sockets.size > 0) await new Promise(setImmediate);
  });

  it("disconnects from the application when the client leaves or stops sending", async () => {
    script = () => undefined;
    const left = await fixture.http.connect();
    left.write(
      `GET / HTTP/1.1\r\nHost: ${fixture.host()}\r\nAuthorization: Bearer ${ALICES_KEY}\r\n\r\n`,
    );
    while (fixture.sockets.size === 0) await new Promise(setImmediate);
    left.destroy();
    while (fixture.sockets.size > 0) await new Promise(setImmediate);
    const slow = await fixture.http.exchange(
      `POST / HTTP/1.1\r\nHost: ${fixture.host()}\r\nAuthorization: Bearer ${ALICES_KEY}\r\nContent-Length: 10\r\n\r\nslow`,
    );
    expect(slow).toMatch(/^HTTP\/1\.1 400 /);
    while (fixture.sockets.size > 0) await new Promise(setImmediate);
  });
});
