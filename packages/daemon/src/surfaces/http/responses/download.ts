/** Streams bytes from a sandbox to the client. */
import { SandboxError } from "@sandkasten/protocol";
import type { FastifyReply } from "fastify";
import { failureForLog } from "../../../failure-for-log.ts";
import { ClientGone, ResponseWriter } from "./response-writer.ts";
import { sendHead } from "./send-head.ts";

export interface Download {
  readonly status: 200 | 206;
  readonly headers: Readonly<Record<string, string | number>>;
  readonly body: ReadableStream<Uint8Array>;
  /** The announced size; when absent, the end of the response is the end. */
  readonly length?: number;
  readonly stallTimeoutMs: number;
}

/** At most this much is buffered on its way out of a sandbox. */
const MEMORY_BYTES = 262_144;

/** Reads into the same memory repeatedly: a result is valid until the next read. */
class Reader {
  readonly #reader: ReadableStreamBYOBReader;
  #memory = new ArrayBuffer(MEMORY_BYTES);

  constructor(body: ReadableStream<Uint8Array>) {
    this.#reader = body.getReader({ mode: "byob" });
  }

  /** Undefined at the end. */
  async read(): Promise<Uint8Array | undefined> {
    const { value, done } = await this.#reader.read(new Uint8Array(this.#memory));
    if (value !== undefined) this.#memory = value.buffer;
    return done ? undefined : value;
  }

  async cancel(): Promise<void> {
    await this.#reader.cancel();
  }
}

/**
 * Rejects for failures before the first bytes: until then the response can be an error. Later
 * failures can only be shown by cutting the connection. A file that shrinks or grows meanwhile
 * yields no more bytes than announced, and a cut connection if fewer.
 */
export async function sendDownload(reply: FastifyReply, download: Download): Promise<void> {
  const reader = new Reader(download.body);
  try {
    const first = await firstBytes(reader, download.length);
    sendHead(reply, download.status, {
      ...download.headers,
      "Content-Type": "application/octet-stream",
      ...(download.length !== undefined && { "Content-Length": download.length }),
    });
    await sendBody(reply, reader, first, download);
  } finally {
    // Also after reading to the end, where it has no effect.
    await reader.cancel().catch(() => undefined);
  }
}

/** Undefined if nothing is to be sent. */
async function firstBytes(
  reader: Reader,
  length: number | undefined,
): Promise<Uint8Array | undefined> {
  if (length === 0) return undefined;
  const bytes = await reader.read();
  if (bytes === undefined && length !== undefined) throw becameShorter();
  return bytes;
}

/** Never rejects: the head has been sent. */
async function sendBody(
  reply: FastifyReply,
  reader: Reader,
  first: Uint8Array | undefined,
  { length, stallTimeoutMs }: Download,
): Promise<void> {
  const writer = new ResponseWriter(reply.raw, stallTimeoutMs);
  try {
    let left = length ?? Number.POSITIVE_INFINITY;
    let bytes = first;
    while (bytes !== undefined && left > 0) {
      await writer.writeWhole(bytes.byteLength > left ? bytes.subarray(0, left) : bytes);
      left -= Math.min(left, bytes.byteLength);
      if (left > 0) bytes = await reader.read();
    }
    if (length !== undefined && left > 0) throw becameShorter();
    reply.raw.end();
  } catch (error) {
    if (!(error instanceof ClientGone))
      reply.log.warn({ err: failureForLog(error) }, "a download was cut off");
    // Node holds writes back until the end of the turn; the client should see at least the head.
    await new Promise(setImmediate);
    reply.raw.destroy();
  }
}

function becameShorter(): SandboxError {
  return new SandboxError("CONFLICT", "the file became shorter while it was read; try again");
}
