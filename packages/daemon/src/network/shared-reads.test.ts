import { connect, createServer } from "node:net";
import type { AddressInfo, Server } from "node:net";
import { Duplex } from "node:stream";
import { afterEach, expect, test } from "vitest";
import { SharedReads } from "./shared-reads.ts";

const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) server.close();
});

async function serve(content: Buffer): Promise<number> {
  const server = createServer((socket) => {
    socket.on("error", () => undefined);
    socket.end(content);
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return (server.address() as AddressInfo).port;
}

function sink(write: (chunk: Buffer, done: (error?: Error) => void) => void): Duplex {
  const duplex = new Duplex({
    read: () => undefined,
    write: (chunk: Buffer, _, done) => write(chunk, done),
  });
  duplex.on("error", () => undefined);
  return duplex;
}

async function download(port: number, to: Duplex): Promise<void> {
  const reads = new SharedReads();
  const socket = connect({ host: "127.0.0.1", port, onread: reads.options });
  await new Promise((resolve) => socket.once("connect", resolve));
  const ended = new Promise<void>((resolve) => {
    to.once("finish", resolve);
    to.once("close", resolve);
  });
  reads.carry(
    socket,
    to,
    () => undefined,
    (reason) => to.destroy(new Error(reason)),
  );
  await ended;
  socket.destroy();
}

test("all bytes arrive unchanged, even if the reader is slower than the server", async () => {
  const content = Buffer.from(Array.from({ length: 3_000_000 }, (_, index) => index % 251));
  const port = await serve(content);
  const heard: Buffer[] = [];
  const slow = sink((chunk, done) => {
    heard.push(Buffer.from(chunk));
    setImmediate(done);
  });
  await download(port, slow);
  expect(Buffer.concat(heard).equals(content)).toBe(true);
});

test.each([
  ["broken", new Error("broken")],
  // Like a stream that counts buffered data as written.
  ["hasty", undefined],
])("the memory of a connection that is %s is never used for another one", async (_, failure) => {
  const first = await serve(Buffer.alloc(300_000, "a"));
  const kept: Buffer[] = [];
  const keeping = sink((chunk, done) => {
    kept.push(chunk);
    done(failure);
  });
  await download(first, keeping);
  expect(kept.length).toBeGreaterThan(0);
  const second = await serve(Buffer.alloc(3_000_000, "b"));
  await download(
    second,
    sink((_chunk, done) => done()),
  );
  expect(kept.every((chunk) => chunk.every((byte) => byte === 97))).toBe(true);
});

/** A stream that reports truthfully when it has released written data; what it holds until then is checked. */
function honest(
  expected: number,
  delayMs: number,
  failure?: Error,
): [Duplex, Set<ArrayBufferLike>] {
  const memories = new Set<ArrayBufferLike>();
  const stream = sink((chunk, done) => {
    // Small reads share memory that belongs to Node.
    if (chunk.byteLength >= 4096) memories.add(chunk.buffer);
    setTimeout(() => {
      const isWhole = chunk.every((byte) => byte === expected);
      done(isWhole ? failure : new Error("the bytes changed while they were held"));
    }, delayMs);
  });
  return [Object.assign(stream, { letsGoOfMemory: true }), memories];
}

test("the memory of a connection is reused, but never while it is held", async () => {
  const sizes = [6_000_000, 3_000_000, 1_500_000];
  const streams = sizes.map((_, index) => honest(65 + index, index));
  await Promise.all(
    sizes.map(async (size, index) => {
      const [stream] = streams[index] ?? [];
      const port = await serve(Buffer.alloc(size, 65 + index));
      if (stream !== undefined) await download(port, stream);
      expect(stream?.errored).toBeNull();
    }),
  );
  const [, memories] = streams[0] ?? [];
  // 6 MB in reads of at most 256 KiB are more than 22; fresh memory for each would be as many.
  expect(memories?.size).toBeLessThan(16);
});

test("the memory of a failed connection is not reused, even if the stream was truthful", async () => {
  const [broken, held] = honest(97, 0, new Error("broken"));
  await download(await serve(Buffer.alloc(300_000, "a")), broken);
  expect(held.size).toBeGreaterThan(0);
  const [next, memories] = honest(98, 0);
  await download(await serve(Buffer.alloc(6_000_000, "b")), next);
  expect([...memories].filter((memory) => held.has(memory))).toEqual([]);
});
