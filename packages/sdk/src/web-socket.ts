/** The part of the WebSocket interface that terminals need; both the global one and `ws` provide it. */

/** Bytes that are not shared with other threads; before TypeScript 5.7 every `Uint8Array`. */
export type OwnBytes = ReturnType<Uint8ArrayConstructor["of"]>;

/** A message connection. */
export interface WebSocketLike {
  binaryType: string;
  send(data: string | OwnBytes): void;
  close(code?: number, reason?: string): void;
  addEventListener(type: "open", listener: () => void): void;
  addEventListener(type: "message", listener: (event: { readonly data: unknown }) => void): void;
  addEventListener(
    type: "close",
    listener: (event: { readonly code: number; readonly reason: string }) => void,
  ): void;
  addEventListener(type: "error", listener: () => void): void;
}

/** Connects to a URL with the offered subprotocols. */
export type WebSocketConstructor = new (url: string, protocols: string[]) => WebSocketLike;
