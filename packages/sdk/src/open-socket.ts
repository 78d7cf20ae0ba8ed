/** Opens a WebSocket to the daemon, with the key where a browser can set it. */
import { encodeBase64Url } from "./base64.ts";
import { SandboxError } from "./sandbox-error.ts";
import type { Call, Transport } from "./transport.ts";
import type { WebSocketConstructor, WebSocketLike } from "./web-socket.ts";

const SUBPROTOCOL = "sandkasten.v1";
const KEY_SUBPROTOCOL = "sandkasten.bearer.";

/** The daemon accepts messages of up to one megabyte. */
export const MESSAGE_BYTES = 65_536;

export function openSocket(
  transport: Transport,
  call: Pick<Call, "path" | "query">,
): WebSocketLike {
  const url = transport.url(call);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  const { webSocket, apiKey } = transport.options;
  const Socket = webSocket ?? globalWebSocket();
  // A browser cannot set headers here, so the key is sent as a subprotocol. It is not part of the
  // URL, which ends up in logs.
  const keys = apiKey === undefined ? [] : [KEY_SUBPROTOCOL + encodeBase64Url(apiKey)];
  return new Socket(url.href, [SUBPROTOCOL, ...keys]);
}

function globalWebSocket(): WebSocketConstructor {
  if (typeof globalThis.WebSocket === "function") return globalThis.WebSocket;
  throw new SandboxError(
    "UNSUPPORTED",
    "This runtime has no WebSocket; pass one as the client's `webSocket`.",
  );
}
