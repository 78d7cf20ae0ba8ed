/** Requests that ask to become a WebSocket: which of them may, and what came right behind their head. */
import type { IncomingMessage, Server } from "node:http";

const SOCKET_PATH =
  /^\/v1\/sessions\/[A-Za-z0-9_-]+\/(?:pty(?:\?|$)|ports\/\d+\/connect(?:\?|$)|proxy\/)/;

/** The first bytes after the head, by the request that was taken for an upgrade. */
const heads = new WeakMap<IncomingMessage, Buffer>();

/** Whether a request wants to become a WebSocket, wherever it goes. */
export function asksForUpgrade({ method, headers }: IncomingMessage): boolean {
  return method === "GET" && headers.upgrade?.toLowerCase() === "websocket";
}

/**
 * All other requests to upgrade are answered as if they had not asked.
 *
 * SECURITY: an upgrade to anything but a WebSocket (`h2c`, say) would carry requests past all checks.
 * Guarded by preview-requests.test.ts.
 */
export function mayUpgrade(
  request: IncomingMessage,
  isPreviewHost: (request: IncomingMessage) => boolean,
): boolean {
  if (!asksForUpgrade(request)) return false;
  return SOCKET_PATH.test(request.url ?? "") || isPreviewHost(request);
}

/** Must be called before others listen for upgrades. */
export function noteUpgrades(server: Server): void {
  server.prependListener("upgrade", (request, _socket, head) => void heads.set(request, head));
}

/** What a client has sent already of what comes after the upgrade; undefined for a usual request. */
export function upgradeHead(request: IncomingMessage): Buffer | undefined {
  return heads.get(request);
}
