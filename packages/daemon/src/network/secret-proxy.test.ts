import { createHash, randomBytes } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { afterEach, beforeAll, describe, expect, it } from "vitest";
import { SessionCa } from "./session-ca.ts";
import {
  ask,
  closeAll,
  closing,
  HOST,
  inside,
  internet,
  internetStored,
  makeAuthorities,
  open,
  portOf,
  say,
  SECRET,
} from "./testing/secret-site.ts";

beforeAll(makeAuthorities);
afterEach(closeAll);

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
