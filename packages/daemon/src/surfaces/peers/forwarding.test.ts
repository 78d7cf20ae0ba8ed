/** Two daemons: one serves the sessions, and the other receives the requests. */
import { once } from "node:events";
import { createServer } from "node:http";
import type { RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { WebSocket } from "ws";
import { freePort } from "../../../../../tests/support/free-port.ts";
import type { OpenApiDocument } from "../native/openapi/openapi.ts";
import { ALICES_KEY, BOBS_KEY, HttpFixture } from "../testing/http-fixture.ts";

const SECRET = "shared-by-the-daemons";

let owner: HttpFixture;
let asked: HttpFixture;
let id: string;
const lookedFor: string[] = [];
beforeAll(async () => {
  const port = await freePort();
  const address = `http://127.0.0.1:${port}`;
  owner = await HttpFixture.start({
    port,
    peer: { secret: SECRET, address },
    replace: {
      execs: {
        /** In-memory sandboxes have no shell; `cat` also reads input. */
        async start(caller, sessionId, options) {
          const isTerminal =
            options.command.kind === "process" && options.command.pty !== undefined;
          const command = isTerminal ? { ...options.command, argv: ["cat"] } : options.command;
          return await this.start!(caller, sessionId, { ...options, command });
        },
      },
    },
  });
  asked = await HttpFixture.start({
    unchecked: true,
    peer: { secret: SECRET },
    replace: {
      servedAt: (sessionId) => {
        lookedFor.push(sessionId);
        return Promise.resolve(address);
      },
    },
  });
  id = await owner.createSession();
});
afterAll(async () => {
  await asked[Symbol.asyncDispose]();
  await owner[Symbol.asyncDispose]();
});

async function listening(handle: RequestListener) {
  const server = createServer(handle);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    address: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    [Symbol.asyncDispose]: async (): Promise<void> => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

describe("a daemon that does not serve the session", () => {
  it("responds like the one that does, for the same caller", async () => {
    const path = `/v1/sessions/${id}`;
    expect((await asked.call(path)).json).toMatchObject({ id, owner: "alice" });
    const exec = await asked.call(`${path}/exec`, { body: { cmd: "echo forwarded" } });
    expect(exec.json).toMatchObject({ exit_code: 0, output: "forwarded\n" });
    expect((await asked.call(path, { key: BOBS_KEY })).status).toBe(404);
    expect((await asked.call(path, { key: null })).status).toBe(401);
    const bytes = Buffer.alloc(3_000_000, "forwarded ");
    const put = { method: "PUT", body: bytes };
    expect((await asked.call(`${path}/fs/file?path=big`, put)).status).toBeLessThan(300);
    const got = await asked.fetch(`${path}/fs/file?path=big`);
    expect(Buffer.from(await got.arrayBuffer()).equals(bytes)).toBe(true);
  });

  it("forwards every route of a session in the document, and no other", async () => {
    const arrived: string[] = [];
    await using peer = await listening((request, response) => {
      arrived.push(`${request.method} ${request.url}`);
      request.resume();
      response.writeHead(207).end();
    });
    await using elsewhere = await HttpFixture.start({
      unchecked: true,
      peer: { secret: SECRET },
      replace: { servedAt: () => Promise.resolve(peer.address) },
    });
    const { paths } = (await elsewhere.call("/openapi.json")).json as OpenApiDocument;
    const routes = Object.entries(paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => [method.toUpperCase(), path] as const),
    );
    const forwarded: string[] = [];
    for (const [method, path] of routes) {
      const filled = path.replace("{id}", "ses_1").replace(/\{\w+\}/gu, "1");
      const count = arrived.length;
      const gone = new AbortController();
      // Only the head: a feed of events has no end.
      const { status } = await elsewhere.fetch(filled, { method, signal: gone.signal });
      gone.abort();
      if (arrived.length === count) continue;
      expect([status, ...arrived.slice(count)]).toEqual([207, `${method} ${filled}`]);
      forwarded.push(`${method} ${path}`);
    }
    const ofSessions = routes.filter(([, path]) => path.startsWith("/v1/sessions/{id}"));
    expect(ofSessions.length).toBeGreaterThan(40);
    expect(forwarded).toEqual(ofSessions.map((route) => route.join(" ")));
  });

  it("does not look up an id that is not valid", async () => {
    for (const odd of ["%00", "%FF", "a%00b", "x".repeat(129)])
      expect((await asked.call(`/v1/sessions/${odd}`)).status).toBe(400);
    expect(lookedFor).toContain(id);
    expect(lookedFor.filter((one) => one !== id)).toEqual([]);
  });

  it("forwards terminals without losing anything at the beginning or the end", async () => {
    for (let round = 0; round < 20; round++) {
      const socket = new WebSocket(`ws://127.0.0.1:${asked.port}/v1/sessions/${id}/pty`, {
        headers: { authorization: `Bearer ${ALICES_KEY}` },
      });
      let shown = "";
      let told = 0;
      socket.on("message", (data: Buffer, isBinary) => {
        if (isBinary) shown += data.toString();
        else told++;
      });
      await once(socket, "open");
      socket.send(Buffer.from(`typed ${round}\n`));
      while (!shown.includes(`typed ${round}`)) await once(socket, "message");
      expect(told).toBeGreaterThan(0);
      socket.close();
      await once(socket, "close");
    }
  });

  it("ends the session there, with a terminal that was just disconnected", async () => {
    const path = `/v1/sessions/${id}`;
    const ended = await asked.call(path, { method: "DELETE" });
    expect(ended.status).toBe(200);
    expect((await owner.call(path)).json).toMatchObject({ status: "destroyed" });
  });
});
