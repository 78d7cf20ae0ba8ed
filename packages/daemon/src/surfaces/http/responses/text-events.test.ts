import { once } from "node:events";
import { createServer } from "node:http";
import type { ServerResponse } from "node:http";
import { connect } from "node:net";
import type { AddressInfo, Socket } from "node:net";
import { fastify } from "fastify";
import { describe, expect, it } from "vitest";
import { Shutdown } from "../connection/shutdown.ts";
import { EventStream } from "./event-stream.ts";
import { ClientGone, ResponseWriter } from "./response-writer.ts";
import { TextEvents } from "./text-events.ts";
import type { TextEvent } from "./text-events.ts";

const KIB = 1024;
/** More than the buffers of a connection hold. */
const FLOOD = Buffer.alloc(32 * 1024 * KIB, "x");

function eventWith(text: Buffer): TextEvent {
  return { event: "chunk", id: "9", field: "text", text, rest: { seq: 3, stream: "stdout" } };
}

function written({ encoded }: TextEvents): string[] {
  return encoded.map((bytes) => bytes.toString());
}

const written9 = (text: string): string =>
  `event: chunk\nid: 9\ndata: ${JSON.stringify({ text, seq: 3, stream: "stdout" })}\n\n`;

describe("events with texts", () => {
  it("stay unchanged until they are cleared, in one piece of memory", () => {
    const events = new TextEvents();
    const texts = ["first\n", "second\n", "third\n"];
    for (const text of texts) expect(events.add(eventWith(Buffer.from(text)))).toBe(true);
    expect(written(events)).toEqual(texts.map(written9));
    const [memory] = events.encoded.map(({ buffer }) => buffer);
    events.clear();
    expect(events.add(eventWith(Buffer.from("fourth")))).toBe(true);
    expect(written(events)).toEqual([written9("fourth")]);
    expect(events.encoded[0]?.buffer).toBe(memory);
  });

  it("never share memory with those of another stream, nor with anything else", () => {
    const [one, other] = [new TextEvents(), new TextEvents()];
    for (const events of [one, other]) events.add(eventWith(Buffer.from("text")));
    const [mine, others] = [one, other].map(({ encoded }) => encoded[0]?.buffer as ArrayBuffer);
    expect(mine).not.toBe(others);
    // Zeros, so not even a bug reveals what another stream left there.
    const rest = Buffer.from(mine ?? new ArrayBuffer()).subarray(one.encoded[0]?.length);
    expect(rest.equals(Buffer.alloc(192 * KIB - (one.encoded[0]?.length ?? 0)))).toBe(true);
  });

  it("are refused without a trace if they do not fit", () => {
    const events = new TextEvents();
    const long = Buffer.alloc(60 * KIB, "long");
    for (const hasRoom of [true, true, true, false])
      expect(events.add(eventWith(long))).toBe(hasRoom);
    expect(events.add(eventWith(Buffer.alloc(40 * KIB, 1)))).toBe(false);
    expect(events.add(eventWith(Buffer.from("short")))).toBe(true);
    const whole = written9(long.toString());
    expect(written(events)).toEqual([whole, whole, whole, written9("short")]);
    events.clear();
  });

  it("are refused if their line is longer than common readers take", () => {
    const events = new TextEvents();
    let length = 64 * KIB - 256;
    for (; length <= 64 * KIB; length++) {
      if (!events.add(eventWith(Buffer.alloc(length, "t")))) break;
      const [event = ""] = written(events);
      expect(event).toEqual(written9("t".repeat(length)));
      events.clear();
    }
    expect(length).toBeLessThan(64 * KIB);
    expect(events.encoded).toEqual([]);
  });

  it("stay in place if their write fails, because the memory can be in use", async () => {
    const events = new TextEvents();
    const outcome = Promise.withResolvers<unknown>();
    const app = fastify({ forceCloseConnections: true });
    app.get("/", async (_request, reply) => {
      await EventStream.serve(
        reply,
        {
          stallTimeoutMs: 60_000,
          pingIntervalMs: 60_000,
          shutdown: new Shutdown(),
          errorFormat: { of: () => expect.unreachable() },
        },
        async (stream) => {
          try {
            reply.raw.write(FLOOD);
            events.add(eventWith(Buffer.from("text")));
            const sent = stream.sendTexts(events);
            client.resetAndDestroy();
            await sent;
            outcome.resolve("sent");
          } catch (error) {
            outcome.resolve(error);
          }
        },
      );
    });
    await app.listen({ host: "127.0.0.1", port: 0 });
    const client = await paused(app.server.address() as AddressInfo);
    expect(await outcome.promise).toBeInstanceOf(ClientGone);
    expect(written(events)).toEqual([written9("text")]);
    await app.close();
  });
});

describe("a write of several parts", () => {
  it.each(["before any", "after the first"])(
    "fails completely if the client leaves %s part was sent",
    async (when) => {
      const server = createServer().listen(0, "127.0.0.1");
      await once(server, "listening");
      const responding = once(server, "request") as Promise<[unknown, ServerResponse]>;
      const client = await paused(server.address() as AddressInfo);
      const [, response] = await responding;
      const writer = new ResponseWriter(response, 60_000);
      const first = when === "before any" ? FLOOD : Buffer.from("first");
      const writing = writer.writeWhole(first, FLOOD, Buffer.from("last"));
      if (when === "after the first") {
        client.resume();
        await once(client, "data");
        client.pause();
      }
      client.resetAndDestroy();
      await expect(writing).rejects.toThrow(ClientGone);
      server.close();
    },
  );
});

/** A client that has sent a request and reads nothing. */
async function paused({ port }: AddressInfo): Promise<Socket> {
  const socket = connect(port, "127.0.0.1").pause();
  await once(socket, "connect");
  socket.write("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  return socket;
}
