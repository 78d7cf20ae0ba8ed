/** Lets a client that is still sending read its response before the connection is cut. */
import type { IncomingMessage } from "node:http";
import { Readable } from "node:stream";
import { ObservedDeadline } from "../../../observed-deadline.ts";

const MAX_LINGER_MS = 2_000;

/**
 * Call it after the response. A client that is refused in the middle of a body must be able to read
 * why, which a connection reset would prevent; a client that sends forever is cut off eventually.
 */
export function drainRequest(request: IncomingMessage, stallTimeoutMs: number): void {
  void drained(request, stallTimeoutMs);
}

/**
 * A response that ends when the body has been read. Node closes a connection of which the client
 * asked that, once the response has ended: with unread bytes that is a reset.
 */
export function endWhenDrained(
  text: string,
  request: IncomingMessage,
  stallTimeoutMs: number,
): Readable {
  return Readable.from(
    (async function* () {
      yield text;
      await drained(request, stallTimeoutMs);
    })(),
  );
}

/** Reads and discards the rest of the body, or cuts the client off. */
async function drained(request: IncomingMessage, stallTimeoutMs: number): Promise<void> {
  if (request.complete || request.socket.destroyed) return;
  const over = Promise.withResolvers<void>();
  const deadline = new ObservedDeadline(Math.min(MAX_LINGER_MS, stallTimeoutMs), () =>
    request.socket.destroy(),
  );
  request.once("end", over.resolve).once("close", over.resolve).resume();
  await over.promise;
  deadline.stop();
}
