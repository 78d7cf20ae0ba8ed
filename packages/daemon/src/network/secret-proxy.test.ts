import { createHash, randomBytes } from "node:crypto";
import type { IncomingMessage, RequestListener } from "node:http";
import { createServer as createHttpsServer, request as httpsRequest } from "node:https";
import type { RequestOptions, Server as HttpsServer } from "node:https";
import { connect as connectTcp, createServer } from "node:net";
import type { AddressInfo, Server, Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { afterEach, beforeAll, describe, expect, it } from "vitest";
import { SecretProxy } from "./secret-proxy.ts";
import type { HeaderSecret } from "./secret-proxy.ts";
import { SessionCa } from "./session-ca.ts";

const HOST = "api.example.com";
const SECRET = "Bearer s3cr3t-of-the-edge";

/** Stands for the authorities of the internet. */
let internet: SessionCa;
let internetStored: Awaited<ReturnType<typeof SessionCa.make>>;
/** The authority of the sandbox. */
let inside: SessionCa;
const closing: (() => void)[] = [];

beforeAll(async () => {
  internetStored = await SessionCa.make(Date.now());
  internet = new SessionCa(internetStored);
  inside = new SessionCa(await SessionCa.make(Date.now()));
});

afterEach(() => {
  for (const close of closing.splice(0)) close();
});

interface Site {
  readonly gateway: Server;
  readonly upstream: HttpsServer;
  /** Heads of the requests that reached the real host. */
  readonly seen: IncomingMessage[];
  readonly connections: () => number;
}

interface SiteOptions {
  readonly secrets?: readonly HeaderSecret[];
  /** The name in the certificate of the real host. */
  readonly certified?: string;
  readonly answer?: RequestListener;
}

async function open(options: SiteOptions = {}): Promise<Site> {
  const seen: IncomingMessage[] = [];
  let connections = 0;
  const context = await internet.contextFor(options.certified ?? HOST, Date.now());
  const upstream = createHttpsServer({ SNICallback: (_name, done) => done(null, context) });
  upstream.on("secureConnection", () => {
    connections += 1;
  });
  upstream.on("request", (request, response) => {
    seen.push(request);
    (options.answer ?? ((_request, answer) => answer.end("hello")))(request, response);
  });
  const upstreamPort = await listening(upstream);
  const secrets = options.secrets ?? [{ header: "authorization", value: SECRET }];
  const proxy = new SecretProxy({
    ca: () => Promise.resolve(inside),
    secretsFor: (host) => (host === HOST ? secrets : []),
    trusted: [internet.certificate],
    nowMs: () => Date.now(),
    take: () => undefined,
  });
  const gateway = createServer((client) => {
    void proxy
      .serve(HOST, client, () => Promise.resolve(connectTcp(upstreamPort, "127.0.0.1")))
      .finally(() => client.destroy());
  });
  await listening(gateway);
  return { gateway, upstream, seen, connections: () => connections };
}

async function listening(server: Server): Promise<number> {
  const sockets = new Set<Socket>();
  server.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined);
  });
  closing.push(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  return (server.address() as AddressInfo).port;
}

const portOf = ({ gateway }: Site): number => (gateway.address() as AddressInfo).port;

interface Answer {
  readonly status: number;
  readonly headers: IncomingMessage["headers"];
  readonly body: Buffer;
}

/** A request as a program in the sandbox sends it. */
async function ask(site: Site, options: RequestOptions = {}, body?: Buffer): Promise<Answer> {
  return await new Promise((resolve, reject) => {
    const request = httpsRequest(
      {
        host: "127.0.0.1",
        port: portOf(site),
        servername: HOST,
        ca: inside.certificate,
        agent: false,
        ...options,
        headers: {
          host: HOST,
          ...(options.headers as Record<string, string | number> | undefined),
        },
      },
      (response) => {
        const chunks: Buffer[] = [];
        response.on("data", (chunk: Buffer) => chunks.push(chunk));
        response.on("end", () =>
          resolve({
            status: response.statusCode ?? 0,
            headers: response.headers,
            body: Buffer.concat(chunks),
          }),
        );
      },
    );
    request.on("error", reject);
    request.end(body);
  });
}

/** Sends exactly this and returns the whole response. */
async function say(site: Site, text: string): Promise<string> {
  return await new Promise((resolve, reject) => {
    const socket = connectTls({
      host: "127.0.0.1",
      port: portOf(site),
      servername: HOST,
      ca: inside.certificate,
    });
    let answer = "";
    socket.on("data", (chunk: Buffer) => {
      answer += chunk.toString("latin1");
    });
    socket.on("close", () => resolve(answer));
    socket.on("error", reject);
    socket.write(text);
  });
}

describe("a host with a secret", () => {
  it("receives it in the header, and the program does not know it", async () => {
    const site = await open();
    expect(await ask(site)).toMatchObject({ status: 200, body: Buffer.from("hello") });
    expect(site.seen[0]?.headers.authorization).toBe(SECRET);
  });

  it("receives it instead of the program's header of that name", async () => {
    const site = await open({ secrets: [{ header: "x-api-key", value: "real" }] });
    await ask(site, { headers: { "X-API-Key": "forged", X_API_KEY: "forged", "X-Other": "kept" } });
    const [request] = site.seen;
    expect(request?.headersDistinct["x-api-key"]).toEqual(["real"]);
    expect(request?.rawHeaders.filter((part) => part.includes("forged"))).toEqual([]);
    expect(request?.headers["x-other"]).toBe("kept");
  });

  it("receives it even if the program asks to remove the header on the way", async () => {
    const site = await open();
    await ask(site, { headers: { Connection: "authorization, keep-alive", TE: "trailers" } });
    expect(site.seen[0]?.headers.authorization).toBe(SECRET);
    expect(site.seen[0]?.headers.te).toBeUndefined();
  });

  it("responds to many requests on one connection", async () => {
    const site = await open();
    const request = `GET / HTTP/1.1\r\nHost: ${HOST}\r\n\r\n`;
    const last = `GET / HTTP/1.1\r\nHost: ${HOST}\r\nConnection: close\r\n\r\n`;
    const answer = await say(site, request + request + last);
    expect(answer.match(/HTTP\/1\.1 200/g)).toHaveLength(3);
    expect(site.seen.map(({ headers }) => headers.authorization)).toEqual([SECRET, SECRET, SECRET]);
    expect(site.connections()).toBe(1);
  });

  it("streams large bodies both ways, of known and unknown length", async () => {
    const site = await open({
      answer: (request, response) => {
        request.pipe(response);
      },
    });
    const content = randomBytes(8 * 1024 * 1024);
    const digest = createHash("sha256").update(content).digest("hex");
    for (const headers of [
      { "Content-Length": content.length },
      { "Transfer-Encoding": "chunked" },
    ]) {
      const { body } = await ask(site, { method: "POST", headers }, content);
      expect(createHash("sha256").update(body).digest("hex")).toBe(digest);
    }
  });

  it("switches protocols with the secret in the head", async () => {
    const site = await open();
    site.upstream.on("upgrade", (request: IncomingMessage, socket: Socket, head: Buffer) => {
      site.seen.push(request);
      socket.write(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n",
      );
      socket.write(head);
      socket.pipe(socket);
    });
    const socket = connectTls({
      host: "127.0.0.1",
      port: portOf(site),
      servername: HOST,
      ca: inside.certificate,
    });
    closing.push(() => socket.destroy());
    socket.write(
      `GET /socket HTTP/1.1\r\nHost: ${HOST}\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n`,
    );
    let text = "";
    for await (const chunk of socket) {
      text += (chunk as Buffer).toString();
      if (text.includes("\r\n\r\n") && !text.includes("ping")) socket.write("ping");
      if (text.includes("ping")) break;
    }
    expect(text).toContain("101 Switching Protocols");
    expect(site.seen[0]?.headers.authorization).toBe(SECRET);
  });

  it("redirects the program, which has no secret to send elsewhere", async () => {
    const site = await open({
      answer: (_request, response) => {
        response.writeHead(302, { Location: "https://evil.example.net/" }).end();
      },
    });
    const answer = await ask(site);
    expect(answer).toMatchObject({
      status: 302,
      headers: { location: "https://evil.example.net/" },
    });
    expect(JSON.stringify(answer)).not.toContain("s3cr3t");
  });

  it.each([
    ["another Host", `GET / HTTP/1.1\r\nHost: evil.example.net\r\n\r\n`, 421],
    ["two Host headers", `GET / HTTP/1.1\r\nHost: ${HOST}\r\nHost: evil.example.net\r\n\r\n`, 4],
    ["no Host", "GET / HTTP/1.1\r\n\r\n", 400],
    [
      "another host in its target",
      `GET https://evil.example.net/ HTTP/1.1\r\nHost: ${HOST}\r\n\r\n`,
      400,
    ],
    [
      "two lengths",
      `POST / HTTP/1.1\r\nHost: ${HOST}\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: ${HOST}\r\n\r\n`,
      400,
    ],
    ["an obsolete line fold", `GET / HTTP/1.1\r\nHost: ${HOST}\r\nX: a\r\n b\r\n\r\n`, 400],
    [
      "a space before a colon",
      `GET / HTTP/1.1\r\nHost: ${HOST}\r\nAuthorization : forged\r\n\r\n`,
      400,
    ],
    ["a bare line feed", `GET / HTTP/1.1\nHost: ${HOST}\nX: a\n\n`, 400],
    ["CONNECT", `CONNECT evil.example.net:443 HTTP/1.1\r\nHost: ${HOST}\r\n\r\n`, 0],
  ])("does not receive a request with %s", async (_fault, text, status) => {
    const site = await open();
    const answer = await say(site, text);
    if (status > 0) expect(answer).toMatch(new RegExp(`^HTTP/1\\.1 ${status}`));
    expect(answer).not.toContain("s3cr3t");
    expect(site.seen).toEqual([]);
  });

  it("receives nothing if its certificate is for another name", async () => {
    const site = await open({ certified: "other.example.com" });
    const answer = await ask(site);
    expect(answer.status).toBe(502);
    expect(answer.body.toString()).toContain("ERR_TLS_CERT_ALTNAME_INVALID");
    expect(site.seen).toEqual([]);
  });

  it("receives nothing once the administrator has removed the secret", async () => {
    const site = await open({ secrets: [{ header: "authorization", value: undefined }] });
    expect((await ask(site)).status).toBe(502);
    expect(site.seen).toEqual([]);
  });
});

describe("the certificate authority of a sandbox", () => {
  it("presents a certificate that only clients with its CA trust", async () => {
    const site = await open();
    await expect(ask(site, { ca: internet.certificate })).rejects.toThrow();
    expect((await ask(site)).status).toBe(200);
    expect(inside.certificate).not.toBe(internet.certificate);
  });

  it("is the same after a restart of the daemon", async () => {
    const again = new SessionCa(internetStored);
    expect(again.certificate).toBe(internet.certificate);
    expect(await again.contextFor(HOST, Date.now())).toBeDefined();
  });
});
