/** Previews requested from a daemon that does not serve the session. */
import { once } from "node:events";
import { createServer } from "node:http";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { WebSocket, WebSocketServer } from "ws";
import { freePort } from "../../../../../tests/support/free-port.ts";
import { ALICES_KEY, HttpFixture } from "../testing/http-fixture.ts";
import { PreviewFixture } from "../testing/preview-fixture.ts";

const SECRET = "shared-by-the-daemons";
const KEY = { authorization: `Bearer ${ALICES_KEY}` };

let owner: PreviewFixture;
let asked: HttpFixture;
beforeAll(async () => {
  const port = await freePort();
  const address = `http://127.0.0.1:${port}`;
  const application = createServer((request, response) => {
    response.end(`${request.method} ${request.url}`);
  });
  new WebSocketServer({ server: application }).on("connection", (socket) => {
    socket.on("message", (data: Buffer) => socket.send(`echo ${data.toString()}`));
  });
  owner = await PreviewFixture.start(application, { port, peer: { secret: SECRET, address } });
  asked = await HttpFixture.start({
    unchecked: true,
    peer: { secret: SECRET },
    replace: { servedAt: () => Promise.resolve(address) },
  });
});
afterAll(async () => {
  await asked[Symbol.asyncDispose]();
  await owner[Symbol.asyncDispose]();
});

/** The preview at the receiving daemon: by path, and by host. */
function addresses(): readonly { readonly path: string; readonly headers: object }[] {
  const host = owner.host().replace(/\d+$/u, String(asked.port));
  return [
    { path: `/v1/sessions/${owner.id}/proxy/8000/page`, headers: KEY },
    { path: "/page", headers: { ...KEY, host } },
  ];
}

describe("a preview through a daemon that does not serve the session", () => {
  it("returns the application's response, to its owner only", async () => {
    const host = owner.host().replace(/\d+$/u, String(asked.port));
    const byPath = `/v1/sessions/${owner.id}/proxy/8000/page`;
    expect((await asked.call(byPath)).text).toBe("GET /page");
    expect((await asked.call(byPath, { key: null })).status).toBe(401);
    const lines = (authorization: string): string =>
      `GET /page HTTP/1.1\r\nhost: ${host}\r\n${authorization}connection: close\r\n\r\n`;
    expect(await asked.exchange(lines(`authorization: ${KEY.authorization}\r\n`))).toContain(
      "GET /page",
    );
    expect(await asked.exchange(lines(""))).toContain(" 401 ");
  });

  it("forwards the application's WebSockets", async () => {
    for (const { path, headers } of addresses()) {
      const socket = new WebSocket(`ws://127.0.0.1:${asked.port}${path}`, {
        headers: { ...headers },
      });
      const answered = once(socket, "message");
      await once(socket, "open");
      socket.send("hello");
      expect(String((await answered)[0])).toBe("echo hello");
      socket.close();
      await once(socket, "close");
    }
  });
});
