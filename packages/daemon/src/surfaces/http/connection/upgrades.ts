/** Requests for a WebSocket upgrade: which are allowed, and the bytes that follow their head. */
import type { IncomingMessage, Server } from "node:http";

/** The first bytes after the head, by upgrade request. */
const heads = new WeakMap<IncomingMessage, Buffer>();

/** Whether a request asks to become a WebSocket, on any path. */
export function asksForUpgrade({ method, headers }: IncomingMessage): boolean {
  return method === "GET" && headers.upgrade?.toLowerCase() === "websocket";
}

/** Must be called before other upgrade listeners are added. */
export function noteUpgrades(server: Server): void {
  server.prependListener("upgrade", (request, _socket, head) => void heads.set(request, head));
}

/** What a client has already sent after the upgrade request; undefined for other requests. */
export function upgradeHead(request: IncomingMessage): Buffer | undefined {
  return heads.get(request);
}
