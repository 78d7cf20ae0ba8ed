/** Answers any number of WebSocket pings in bounded memory. */
import type { WebSocket } from "@fastify/websocket";

/** The maximum of pings per second; no legitimate client sends that many. */
const MAX_PINGS = 1000;
const WINDOW_MS = 1000;
const POLICY_VIOLATION = 1008;
const GOODBYE_MS = 1000;

/**
 * SECURITY: if a client sends pings and reads nothing, every pong would wait in memory. Only one
 * pong is sent at a time, for the newest ping, as RFC 6455 allows; a client that floods is
 * disconnected. Guarded by socket-pongs.test.ts and pty.test.ts.
 */
export function answerPings(socket: WebSocket): void {
  let isSending = false;
  let newest: Buffer | undefined;
  let windowBeganMs = performance.now();
  let pings = 0;
  const answer = (data: Buffer): void => {
    isSending = true;
    newest = undefined;
    socket.pong(data, false, () => {
      isSending = false;
      if (newest !== undefined && socket.readyState === socket.OPEN) answer(newest);
    });
  };
  socket.on("ping", (data: Buffer) => {
    if (socket.readyState !== socket.OPEN) return;
    const nowMs = performance.now();
    if (nowMs - windowBeganMs > WINDOW_MS) {
      windowBeganMs = nowMs;
      pings = 0;
    }
    pings += 1;
    if (pings > MAX_PINGS) disconnect(socket);
    else if (isSending) newest = data;
    else answer(data);
  });
}

/** Stops reading, and does not wait for a client that does not read either. */
function disconnect(socket: WebSocket): void {
  socket.close(POLICY_VIOLATION, "too many pings");
  socket.pause();
  const timer = setTimeout(() => socket.terminate(), GOODBYE_MS);
  socket.once("close", () => clearTimeout(timer));
}
