import { once } from "node:events";
import { connect } from "node:net";
import type { AddressInfo, Socket } from "node:net";
import { fastify } from "fastify";
import { expect, it } from "vitest";
import { worstTurnMs } from "../../../testing/worst-turn.ts";
import { Shutdown } from "../connection/shutdown.ts";
import { EventStream } from "./event-stream.ts";

const CLIENTS = 250;
const EVENTS = 200;

it("shares turns with other work when hundreds of streams have events at the same time", async () => {
  const shutdown = new Shutdown();
  const happened = Promise.withResolvers<void>();
  const sent: Promise<void>[] = [];
  let ready = 0;
  const context = {
    stallTimeoutMs: 60_000,
    pingIntervalMs: 60_000,
    shutdown,
    errorFormat: { of: () => expect.unreachable() },
  };
  const app = fastify({ forceCloseConnections: true });
  app.get("/", async (_request, reply) => {
    const serving = EventStream.serve(reply, context, async (stream) => {
      ready += 1;
      await happened.promise;
      for (let n = 0; n < EVENTS; n += 1) await stream.send("event", { n });
    });
    sent.push(serving);
    await serving;
  });
  await app.listen({ host: "127.0.0.1", port: 0 });
  const { port } = app.server.address() as AddressInfo;
  const clients: Socket[] = [];
  try {
    const texts: string[] = [];
    for (let n = 0; n < CLIENTS; n += 1) {
      const client = connect(port, "127.0.0.1");
      clients.push(client);
      client.write("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
      let text = "";
      client.on("data", (bytes: Buffer) => (text += bytes.toString()));
      client.once("close", () => texts.push(text));
    }
    while (ready < CLIENTS) await new Promise((resolve) => setTimeout(resolve, 5));
    const ended = Promise.all(clients.map((client) => once(client, "close")));
    happened.resolve();
    expect(await worstTurnMs(Promise.all(sent))).toBeLessThan(100);
    await ended;
    for (const text of texts) expect(text.match(/event: event/g)).toHaveLength(EVENTS);
  } finally {
    for (const client of clients) client.destroy();
    await app.close();
  }
});

it("is over from the beginning if its client has gone", async () => {
  const context = {
    stallTimeoutMs: 60_000,
    pingIntervalMs: 60_000,
    shutdown: new Shutdown(),
    errorFormat: { of: () => expect.unreachable() },
  };
  const app = fastify({ forceCloseConnections: true });
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const asked = Promise.withResolvers<void>();
  app.get("/", async (_request, reply) => {
    asked.resolve();
    await once(reply.raw, "close");
    await EventStream.serve(reply, context, async ({ signal }) => resolve(signal.aborted));
  });
  await app.listen({ host: "127.0.0.1", port: 0 });
  try {
    const client = connect((app.server.address() as AddressInfo).port, "127.0.0.1");
    client.write("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    await asked.promise;
    client.destroy();
    expect(await promise).toBe(true);
  } finally {
    await app.close();
  }
});
