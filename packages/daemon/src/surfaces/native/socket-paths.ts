/** Which requests to the native API and to previews may become a WebSocket. */
import type { IncomingMessage } from "node:http";
import { asksForUpgrade } from "../http/connection/upgrades.ts";

const SOCKET_PATH =
  /^\/v1\/sessions\/[A-Za-z0-9_-]+\/(?:pty(?:\?|$)|ports\/\d+\/connect(?:\?|$)|proxy\/)/;

/**
 * All other upgrade requests are handled as plain requests.
 *
 * SECURITY: an upgrade to anything but a WebSocket (for example `h2c`) would bypass all checks. Guarded
 * by preview-requests.test.ts.
 */
export function mayUpgrade(
  request: IncomingMessage,
  isPreviewHost: (request: IncomingMessage) => boolean,
): boolean {
  if (!asksForUpgrade(request)) return false;
  return SOCKET_PATH.test(request.url ?? "") || isPreviewHost(request);
}
