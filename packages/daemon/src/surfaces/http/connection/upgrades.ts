/** Requests that ask to become a WebSocket: which of them may, and what came right behind their head. */
import type { IncomingMessage, Server } from "node:http";

/** The first bytes after the head, by the request that was taken for an upgrade. */
const heads = new WeakMap<IncomingMessage, Buffer>();

/** Whether a request wants to become a WebSocket, wherever it goes. */
export function asksForUpgrade({ method, headers }: IncomingMessage): boolean {
  return method === "GET" && headers.upgrade?.toLowerCase() === "websocket";
}

/** Must be called before others listen for upgrades. */
export function noteUpgrades(server: Server): void {
  server.prependListener("upgrade", (request, _socket, head) => void heads.set(request, head));
}

/** What a client has sent already of what comes after the upgrade; undefined for a usual request. */
export function upgradeHead(request: IncomingMessage): Buffer | undefined {
  return heads.get(request);
}
