import { createServer } from "node:http";
import type { IncomingMessage } from "node:http";
import { createServer as createTcpServer } from "node:net";
import type { Socket } from "node:net";
import { once } from "node:events";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { WebSocket, WebSocketServer } from "ws";
import { ALICES_KEY, BOBS_KEY } from "../testing/http-fixture.ts";
import { PreviewFixture } from "../testing/preview-fixture.ts";
import { pairs } from "./forwarded-headers.ts";

/** What the application received, head and body. */
interface Seen {
  readonly method: string;
  readonly url: string;
  readonly headers: readonly (readonly [string, string])[];
  readonly body: string;
}

let fixture: PreviewFixture;
let token: string;
beforeAll(async () => {
  const server = createServer((request, response) => {
    void seenOf(request).then((seen) => response.end(JSON.stringify(seen)));
  });
  const sockets = new WebSocketServer({ server, handleProtocols: ([first]) => first ?? false });
  sockets.on("connection", (socket, request) => {
    socket.send(JSON.stringify([...pairs(request.rawHeaders)]));
    socket.on("message", (data, binary) => socket.send(data, { binary }));
  });
  fixture = await PreviewFixture.start(server);
  token = await fixture.token();
});
afterAll(async () => await fixture[Symbol.asyncDispose]());

async function seenOf(request: IncomingMessage): Promise<Seen> {
  const { method = "", url = "", rawHeaders } = request;
  const pieces: Buffer[] = await Array.fromAsync(request as AsyncIterable<Buffer>);
  return { method, url, headers: [...pairs(rawHeaders)], body: Buffer.concat(pieces).toString() };
}

const valuesOf = ({ headers }: Pick<Seen, "headers">, name: string): string[] =>
  headers.filter(([found]) => found.toLowerCase() === name).map(([, value]) => value);

const bearer = { authorization: `Bearer ${ALICES_KEY}` };

async function seen(headers: Record<string, string | string[]>, path = "/"): Promise<Seen> {
  const { status, text } = await fixture.ask(fixture.host(), { headers, path });
  expect([status, text]).toEqual([200, text]);
  return JSON.parse(text) as Seen;
}

describe("a request into the sandbox", () => {
  it("is unchanged, with the address of its sender", async () => {
    const got = await seen(
      {
        ...bearer,
        "X-Custom": ["one", "two"],
        "user-agent": "test",
        "X-Forwarded-For": "203.0.113.9",
        "X-Forwarded-Host": "evil.test",
        "X-Forwarded-Proto": "gopher",
        Forwarded: "host=evil.test",
      },
      "/a%2fb/../c?d=%zz&e",
    );
    expect(got).toMatchObject({ method: "GET", url: "/a%2fb/../c?d=%zz&e", body: "" });
    expect(valuesOf(got, "x-custom")).toEqual(["one", "two"]);
    expect(valuesOf(got, "host")).toEqual([fixture.host()]);
    expect(valuesOf(got, "x-forwarded-host")).toEqual([fixture.host()]);
    expect(valuesOf(got, "x-forwarded-proto")).toEqual(["http"]);
    expect(valuesOf(got, "x-forwarded-for")).toEqual(["203.0.113.9, 127.0.0.1"]);
    expect(valuesOf(got, "forwarded")).toEqual([]);
  });

  it("has no headers about the connection", async () => {
    const got = await seen({
      ...bearer,
      Connection: "close, X-Mine, host, x-forwarded-for",
      "X-Mine": "secret",
      "Keep-Alive": "timeout=5",
      TE: "trailers",
      "Proxy-Authorization": "Basic eDp5",
      Upgrade: "h2c",
      "HTTP2-Settings": "AAMAAABkAAQAAP__",
    });
    for (const name of ["x-mine", "keep-alive", "te", "proxy-authorization", "upgrade"])
      expect(valuesOf(got, name)).toEqual([]);
    expect(valuesOf(got, "http2-settings")).toEqual([]);
    expect(valuesOf(got, "connection")).toEqual(["close"]);
    expect(valuesOf(got, "host")).toEqual([fixture.host()]);
    expect(valuesOf(got, "x-forwarded-for")).toEqual(["127.0.0.1"]);
  });

  it("never contains a key, a token or our cookie, in any form", async () => {
    const cookie = `a=b; sandkasten_preview=${token}; c=d`;
    const basic = `Basic ${btoa(`me:${BOBS_KEY}`)}`;
    const path = `/x?a=1&sandkasten_token=${token}&b=2`;
    const all = [
      await seen({ ...bearer, cookie }),
      await seen({ cookie, authorization: basic }),
      await seen({ cookie: `sandkasten_preview=${token}`, referer: `http://x${path}` }),
      await seen({ cookie: "a=b" }, path),
    ];
    const byPath = `/v1/sessions/${fixture.id}/proxy/8000`;
    for (const [prefix, headers] of [
      [byPath, { ...bearer, cookie, referer: "http://x/" }],
      [
        `${byPath}~${token}`,
        { authorization: basic, cookie, referer: `http://x${byPath}~${token}/` },
      ],
    ] as const) {
      const { text } = await fixture.ask("localhost", { path: `${prefix}/x?y`, headers });
      const got = JSON.parse(text) as Seen;
      expect(got.url).toBe("/x?y");
      expect(valuesOf(got, "x-forwarded-prefix")).toEqual([byPath]);
      all.push(got);
    }
    for (const got of all) {
      const text = JSON.stringify(got);
      for (const secret of [ALICES_KEY, BOBS_KEY, token, btoa(`me:${BOBS_KEY}`), "sandkasten_"])
        expect(text).not.toContain(secret);
    }
    expect(valuesOf(all[0]!, "cookie")).toEqual(["a=b; c=d"]);
    expect(valuesOf(all[2]!, "cookie")).toEqual([]);
    expect(all[3]?.url).toBe("/x?a=1&b=2");
    // By path, there are no cookies at all.
    expect(all.slice(4).flatMap((got) => valuesOf(got, "cookie"))).toEqual([]);
  });

  it("can contain the application's own credentials", async () => {
    const own = { cookie: `sandkasten_preview=${token}`, authorization: "Bearer of-the-app" };
    expect(valuesOf(await seen(own), "authorization")).toEqual(["Bearer of-the-app"]);
  });

  it("has a body of any size, streamed", async () => {
    const body = Buffer.alloc(12_000_000, "upload ");
    const { text } = await fixture.ask(fixture.host(), {
      method: "PUT",
      headers: { ...bearer, "content-encoding": "gzip", "content-type": "no type at all" },
      body,
    });
    const got = JSON.parse(text) as Seen;
    expect(got.body === body.toString()).toBe(true);
    expect(valuesOf(got, "content-encoding")).toEqual(["gzip"]);
    expect(valuesOf(got, "content-type")).toEqual(["no type at all"]);
    expect(valuesOf(got, "content-length")).toEqual([String(body.byteLength)]);
  });
});

/** An application that records everything it receives. */
class Recorder implements AsyncDisposable {
  received = "";
  connections = 0;
  readonly #fixture: Promise<PreviewFixture>;

  constructor() {
    const server = createTcpServer((socket: Socket) => {
      this.connections += 1;
      socket.on("data", (bytes) => {
        this.received += bytes.toString("latin1");
        if (this.received.includes("\r\n\r\n"))
          socket.end("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
      });
    });
    this.#fixture = PreviewFixture.start(server);
  }

  /** Sends text unchanged, and returns everything that results. */
  async send(text: string): Promise<{ answer: string; received: string; connections: number }> {
    const own = await this.#fixture;
    this.received = "";
    this.connections = 0;
    const filled = text.replace("HOST", own.host()).replace("KEY", ALICES_KEY);
    const answer = await own.http.exchange(filled);
    return { answer, received: this.received, connections: this.connections };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await (await this.#fixture)[Symbol.asyncDispose]();
  }
}

let recorder: Recorder;
beforeAll(() => {
  recorder = new Recorder();
});
afterAll(async () => await recorder[Symbol.asyncDispose]());
const smuggle = async (text: string) => await recorder.send(text);

const start = (method: string): string =>
  `${method} / HTTP/1.1\r\nHost: HOST\r\nAuthorization: Bearer KEY\r\n`;
const hidden = "GET /hidden HTTP/1.1\r\nHost: x\r\n\r\n";

describe("an ambiguous request", () => {
  it.each([
    ["a length and chunks", `Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`],
    ["two lengths", "Content-Length: 0\r\nContent-Length: 40\r\n\r\n"],
    ["two lengths in one", "Content-Length: 0, 40\r\n\r\n"],
    ["a length with a sign", "Content-Length: +0\r\n\r\n"],
    ["an unknown coding", "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"],
    ["a second coding", "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n"],
    ["a coding in front", "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"],
    ["a space before the colon", "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n"],
    ["a bare line feed", "X: y\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"],
    ["a bad size of a chunk", "Transfer-Encoding: chunked\r\n\r\n0x0\r\n\r\n"],
  ])("is refused or has one meaning: %s", async (_name, rest) => {
    const request = `${start("POST")}Connection: close\r\n${rest}`;
    // Also alone: a following request is itself a reason to refuse it.
    for (const text of [request, request + hidden]) {
      const { answer, received } = await smuggle(text);
      expect(received).not.toContain("/hidden");
      expect(answer).not.toContain("200 OK");
      expect(answer).toMatch(/^HTTP\/1\.1 400 /);
    }
  });

  it("has a folded header as one line, if at all", async () => {
    const { received } = await smuggle(
      `${start("GET")}X-Folded: a\r\n Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n`,
    );
    expect(received).not.toMatch(/^ ?transfer-encoding/im);
  });

  it("is one request for each connection to the application, whatever follows", async () => {
    const second = start("GET").replace("/ ", "/second ");
    const { answer, received, connections } = await smuggle(
      `${start("GET")}\r\n${second.replace("HOST", "localhost").replace("KEY", ALICES_KEY)}Connection: close\r\n\r\n`,
    );
    // The second request names the daemon's own host, so it would reach the API.
    expect(connections).toBe(1);
    expect(received.match(/HTTP\/1\.1\r\n/g)).toHaveLength(1);
    expect(answer).toContain("ROUTE_NOT_FOUND");
  });

  it("does not include what follows an upgrade that the application refuses", async () => {
    const upgrade =
      "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 777\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n";
    const { answer, received } = await smuggle(`${start("GET")}${upgrade}\r\n${hidden}`);
    expect(answer).toMatch(/^HTTP\/1\.1 200 OK/);
    expect(received).toContain("Upgrade: websocket");
    expect(received).not.toContain("/hidden");
  });

  it("does not include what follows an upgrade to another protocol", async () => {
    const upgrade =
      "Connection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n";
    const { answer, received } = await smuggle(`${start("GET")}${upgrade}\r\n${hidden}`);
    expect(answer).toMatch(/^HTTP\/1\.1 200 OK/);
    expect(received).not.toMatch(/h2c|HTTP2|upgrade/i);
    expect(received).not.toContain("/hidden");
  });
});

describe("a WebSocket", () => {
  async function open(path: string, host: string, options: object = {}, protocols: string[] = []) {
    const socket = new WebSocket(`ws://127.0.0.1:${fixture.http.port}${path}`, protocols, {
      ...options,
      headers: { host, ...(options as { headers?: object }).headers },
    });
    const [data] = (await once(socket, "message")) as [Buffer];
    return { socket, headers: JSON.parse(data.toString()) as [string, string][] };
  }

  it("is forwarded, by host and by path, with the key, the cookie or a link", async () => {
    const key = `sandkasten.bearer.${Buffer.from(ALICES_KEY).toString("base64url")}`;
    const byPath = `/v1/sessions/${fixture.id}/proxy/8000`;
    const cookie = `sandkasten_preview=${token}`;
    const ways: Parameters<typeof open>[] = [
      ["/hmr?a", fixture.host(), { headers: bearer }, ["vite-hmr"]],
      ["/hmr?a", fixture.host(), { headers: { cookie } }, ["vite-hmr"]],
      [`/hmr?sandkasten_token=${token}`, fixture.host(), {}, ["vite-hmr"]],
      [`${byPath}/hmr`, "localhost", {}, ["vite-hmr", "sandkasten.v1", key]],
      [`${byPath}~${token}/hmr`, "localhost", { origin: "null" }, ["vite-hmr"]],
    ];
    for (const way of ways) {
      const { socket, headers } = await open(...way);
      const text = JSON.stringify(headers);
      for (const secret of [ALICES_KEY, token, key, "sandkasten."])
        expect(text).not.toContain(secret);
      const bytes = Buffer.alloc(300_000, "x");
      socket.send(bytes);
      const [echoed] = (await once(socket, "message")) as [Buffer];
      expect(echoed.equals(bytes)).toBe(true);
      expect(socket.protocol).toBe("vite-hmr");
      const closed = once(socket, "close");
      socket.close(1000);
      expect((await closed)[0]).toBe(1000);
    }
    while (fixture.sockets.size > 0) await new Promise(setImmediate);
  });

  it("is refused to a page of another origin with the visitor's cookie, and without credentials", async () => {
    const refused = async (headers: object, origin?: string): Promise<number> => {
      const socket = new WebSocket(`ws://127.0.0.1:${fixture.http.port}/`, {
        headers: { host: fixture.host(), ...headers },
        ...(origin !== undefined && { origin }),
      });
      socket.on("error", () => undefined);
      const [, response] = (await once(socket, "unexpected-response")) as [
        unknown,
        IncomingMessage,
      ];
      socket.terminate();
      return response.statusCode ?? 0;
    };
    const cookie = `sandkasten_preview=${token}`;
    expect(await refused({ cookie }, "http://evil.test")).toBe(403);
    expect(await refused({ cookie }, "null")).toBe(403);
    expect(await refused({})).toBe(401);
  });

  it("ends with either side, and with the daemon", async () => {
    const { socket } = await open("/", fixture.host(), { headers: bearer });
    const closed = once(socket, "close");
    for (const server of fixture.sockets) server.destroy();
    expect((await closed)[0]).toBe(1006);
    const second = await open("/", fixture.host(), { headers: bearer });
    second.socket.terminate();
    while (fixture.sockets.size > 0) await new Promise(setImmediate);
    const third = await open("/", fixture.host(), { headers: bearer });
    const last = once(third.socket, "close");
    fixture.http.app.beginShutdown();
    await last;
  });
});
