/** Limits how many requests a client can send on one connection ahead of the responses. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";

type Handle = (request: IncomingMessage, response: ServerResponse) => void;

/** Clients that pipeline at all do so with fewer. */
const MAX_UNANSWERED = 16;

/**
 * Cuts connections with more unanswered requests.
 *
 * SECURITY: one packet can hold thousands of small requests, which are read in one turn of the event
 * loop; handling all of them would stall other clients (threat: oversized requests). Guarded by
 * stalls.test.ts.
 */
export function limitRequestsAhead(handle: Handle): Handle {
  const unanswered = new WeakMap<Socket, number>();
  return (request, response) => {
    const { socket } = request;
    // What was read together with the request that was one too many.
    if (socket.destroyed) return;
    const count = (unanswered.get(socket) ?? 0) + 1;
    if (count > MAX_UNANSWERED) {
      socket.destroy();
      return;
    }
    unanswered.set(socket, count);
    response.once("close", () => unanswered.set(socket, (unanswered.get(socket) ?? 1) - 1));
    handle(request, response);
  };
}
