/** Sends bytes as they come out of a sandbox. */
import type { FastifyReply } from "fastify";
import { failureForLog } from "./error-answer.ts";
import { ClientGone, ResponseWriter } from "./response-writer.ts";
import { sendHead } from "./send-head.ts";

export interface Download {
  readonly status: 200 | 206;
  readonly headers: Readonly<Record<string, string | number>>;
  readonly body: ReadableStream<Uint8Array>;
  /** How many bytes were promised; when absent, the answer's end is the end. */
  readonly length?: number;
  readonly stallTimeoutMs: number;
}

/**
 * Never rejects: the head is out, so what fails later can only be shown by cutting the connection.
 * A file that shrinks or grows meanwhile gives no more bytes than promised, and a cut when fewer.
 */
export async function sendDownload(reply: FastifyReply, download: Download): Promise<void> {
  const { body, length } = download;
  const reader = body.getReader();
  sendHead(reply, download.status, {
    ...download.headers,
    "Content-Type": "application/octet-stream",
    ...(length !== undefined && { "Content-Length": length }),
  });
  const writer = new ResponseWriter(reply.raw, download.stallTimeoutMs);
  try {
    let left = length ?? Number.POSITIVE_INFINITY;
    while (left > 0) {
      const { done, value } = await reader.read();
      if (done) break;
      await writer.write(value.byteLength > left ? value.subarray(0, left) : value);
      left -= Math.min(left, value.byteLength);
    }
    if (length !== undefined && left > 0)
      throw new Error("the file became shorter while it was sent");
    reply.raw.end();
  } catch (error) {
    if (!(error instanceof ClientGone))
      reply.log.warn({ err: failureForLog(error) }, "a download was cut off");
    reply.raw.destroy();
  } finally {
    // Also when it was read to its end: then there is nothing to give up, and no harm in saying so.
    await reader.cancel().catch(() => undefined);
  }
}
