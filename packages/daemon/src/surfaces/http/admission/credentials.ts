/** Extracts the key from a request. */
import type { IncomingHttpHeaders } from "node:http";

/**
 * `open` needs no key; `browser` also accepts the key as an HTTP Basic password; `socket` also as a
 * subprotocol; `preview` also accepts a link to one port.
 */
export type RouteAccess = "open" | "browser" | "socket" | "preview";

export const PTY_SUBPROTOCOL = "sandkasten.v1";
const KEY_SUBPROTOCOL = "sandkasten.bearer.";

/**
 * The key, or undefined if there is none in a place that this route accepts.
 *
 * SECURITY: exactly `Bearer`, a space and the key; anything else is not a key (threat: unauthorized
 * access). Guarded by admission.test.ts.
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

/** A browser can only open a page with HTTP Basic; the user name is ignored. */
function passwordOf(authorization: string): string | undefined {
  const encoded = /^Basic ([A-Za-z0-9+/]+={0,2})$/.exec(authorization)?.[1];
  if (encoded === undefined) return undefined;
  const text = Buffer.from(encoded, "base64").toString();
  const colon = text.indexOf(":");
  return colon === -1 || colon === text.length - 1 ? undefined : text.slice(colon + 1);
}

/** On a WebSocket, a browser can only set the list of subprotocols. */
function subprotocolKey(protocols: string | undefined): string | undefined {
  const offered = (protocols ?? "").split(",").map((protocol) => protocol.trim());
  const keys = offered.filter((protocol) => protocol.startsWith(KEY_SUBPROTOCOL));
  if (keys.length !== 1 || !offered.includes(PTY_SUBPROTOCOL)) return undefined;
  const encoded = keys[0]?.slice(KEY_SUBPROTOCOL.length) ?? "";
  return encoded === "" ? undefined : Buffer.from(encoded, "base64url").toString();
}
