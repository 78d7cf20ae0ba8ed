/** Lets a client that is still sending read its response before the connection is cut. */
import type { IncomingMessage } from "node:http";
import { ObservedDeadline } from "../../../observed-deadline.ts";

const MAX_LINGER_MS = 2_000;

/**
 * Call it after the response. A client that is refused in the middle of a body must be able to read
 * why, which a connection reset would prevent; a client that sends forever is cut off eventually.
 */
export function drainRequest(request: IncomingMessage, stallTimeoutMs: number): void {
  if (request.complete || request.socket.destroyed) return;
  request.resume();
  const lingerMs = Math.min(MAX_LINGER_MS, stallTimeoutMs);
  const deadline = new ObservedDeadline(lingerMs, () => request.socket.destroy());
  request.once("close", () => deadline.stop());
}
