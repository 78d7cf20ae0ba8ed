/** Which requests of the native API and of previews may become a WebSocket. */
import type { IncomingMessage } from "node:http";
import { asksForUpgrade } from "../http/connection/upgrades.ts";

const SOCKET_PATH =
  /^\/v1\/sessions\/[A-Za-z0-9_-]+\/(?:pty(?:\?|$)|ports\/\d+\/connect(?:\?|$)|proxy\/)/;

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
