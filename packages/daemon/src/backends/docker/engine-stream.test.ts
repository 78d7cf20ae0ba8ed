import { once } from "node:events";
import { PassThrough, Duplex } from "node:stream";
import { expect, test } from "vitest";
import { EngineStream } from "./engine-stream.ts";

const STDOUT = 1;
const STDERR = 2;

function piece(stream: number, bytes: Buffer | string): Buffer {
  const header = Buffer.alloc(8);
  header[0] = stream;
  header.writeUInt32BE(Buffer.byteLength(bytes), 4);
  return Buffer.concat([header, Buffer.from(bytes)]);
}

/** The engine's end: data put into `from` is read, and writes arrive in `to`. */
function pair(): {
  readonly stream: EngineStream;
  readonly from: PassThrough;
  readonly to: PassThrough;
} {
  const [from, to] = [new PassThrough(), new PassThrough()];
  return { from, to, stream: new EngineStream(Duplex.from({ readable: from, writable: to })) };
}

async function textOf(stream: EngineStream): Promise<string> {
  return Buffer.concat(await Array.fromAsync(stream)).toString();
}

test.each([1, 2, 7, 8, 9, 1000])(
  "output is complete if it arrives in pieces of %d bytes",
  async (size) => {
    const { stream, from } = pair();
    const sent = Buffer.concat([
      piece(STDOUT, "one "),
      piece(STDERR, "not this"),
      piece(STDOUT, ""),
      piece(STDOUT, "two"),
    ]);
    const received = textOf(stream);
    for (let at = 0; at < sent.length; at += size) from.write(sent.subarray(at, at + size));
    from.end();
    expect(await received).toBe("one two");
  },
);

test("input ends while output continues", async () => {
  const { stream, from, to } = pair();
  stream.end("last words");
  expect(Buffer.concat(await Array.fromAsync(to)).toString()).toBe("last words");
  from.end(piece(STDOUT, "answer"));
  expect(await textOf(stream)).toBe("answer");
});

test("a slow reader slows the engine down, and memory stays bounded", async () => {
  const { stream, from } = pair();
  let accepted = 0;
  while (from.write(piece(STDOUT, Buffer.alloc(16_384)))) await new Promise(setImmediate);
  accepted = stream.readableLength + from.readableLength;
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect(stream.readableLength + from.readableLength).toBe(accepted);
  expect(stream.readableLength).toBeLessThan(512 * 1024);
  stream.destroy();
});

test("an engine that does not keep up slows a writer down", async () => {
  const { stream, to } = pair();
  let writes = 0;
  while (stream.write(Buffer.alloc(16_384))) {
    writes += 1;
    await new Promise(setImmediate);
  }
  expect(writes).toBeLessThan(100);
  to.resume();
  await once(stream, "drain");
  stream.destroy();
});

test("a program that ends without output has failed, with its message", async () => {
  const { stream, from } = pair();
  from.end(piece(STDERR, "runner: cannot reach\u001B[31m"));
  await expect(textOf(stream)).rejects.toThrow('"runner: cannot reach\\u001b[31m"');
});

test("data that is not an engine's stream ends the connection", async () => {
  const { stream, from } = pair();
  from.write("HTTP/1.1 200 OK");
  await expect(textOf(stream)).rejects.toThrow("not in Docker's format");
});
