/** Finds the key that a request carries. */
import type { IncomingHttpHeaders } from "node:http";

/**
 * `open` needs no key; `browser` also takes the key as password of HTTP Basic; `socket` also as a
 * subprotocol; `preview` also takes a link to one port.
 */
export type RouteAccess = "open" | "browser" | "socket" | "preview";

export const PTY_SUBPROTOCOL = "sandkasten.v1";
const KEY_SUBPROTOCOL = "sandkasten.bearer.";

/**
 * The key, or undefined when there is none in a place that counts for this route.
 *
 * SECURITY: exactly `Bearer`, a space and the key; what is not exactly that is no key (threat:
 * unauthorized access). Guarded by admission.test.ts.
 */
export function keyOf(
  headers: IncomingHttpHeaders,
  access: RouteAccess | undefined,
): string | undefined {
  const { authorization } = headers;
  if (authorization !== undefined) {
    const bearer = /^Bearer ([\x21-\x7e]+)$/.exec(authorization)?.[1];
    return bearer ?? (access === "browser" ? passwordOf(authorization) : undefined);
  }
  return access === "socket" ? subprotocolKey(headers["sec-websocket-protocol"]) : undefined;
}

/** A browser can only open a page with HTTP Basic; the user's name does not matter. */
function passwordOf(authorization: string): string | undefined {
  const encoded = /^Basic ([A-Za-z0-9+/]+={0,2})$/.exec(authorization)?.[1];
  if (encoded === undefined) return undefined;
  const text = Buffer.from(encoded, "base64").toString();
  const colon = text.indexOf(":");
  return colon === -1 || colon === text.length - 1 ? undefined : text.slice(colon + 1);
}

/** A browser can set no header on a WebSocket but the list of subprotocols. */
function subprotocolKey(protocols: string | undefined): string | undefined {
  const offered = (protocols ?? "").split(",").map((protocol) => protocol.trim());
  const keys = offered.filter((protocol) => protocol.startsWith(KEY_SUBPROTOCOL));
  if (keys.length !== 1 || !offered.includes(PTY_SUBPROTOCOL)) return undefined;
  const encoded = keys[0]?.slice(KEY_SUBPROTOCOL.length) ?? "";
  return encoded === "" ? undefined : Buffer.from(encoded, "base64url").toString();
}
