/** The part of the WebSocket interface that terminals need; the global one has it, and that of `ws`. */

/** Bytes that are not shared with other threads; before TypeScript 5.7 all `Uint8Array`s. */
export type OwnBytes = ReturnType<Uint8ArrayConstructor["of"]>;

/** A connection for messages. */
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

/** Connects to an address with the offered subprotocols. */
export type WebSocketConstructor = new (url: string, protocols: string[]) => WebSocketLike;
