/** Connects a WebSocket to a port: binary messages are its bytes, text messages are control messages. */
import { portClientMessageSchema, SandboxError } from "@sandkasten/protocol";
import type { PortClientMessage, PortServerMessage } from "@sandkasten/protocol";
import type { WebSocket } from "@fastify/websocket";
import type { PortConnection } from "../../../../ports/channel.ts";
import { MessageSocket } from "../../../http/sockets/message-socket.ts";
import type { MessageSocketOptions } from "../../../http/sockets/message-socket.ts";
import { ClientGone } from "../../../http/responses/response-writer.ts";

/** The queue limit for the port if the client has set no window. */
const MAX_QUEUED_BYTES = 262_144;
/** Small messages are merged, so their bytes count rather than their number. */
const MERGED_BYTES = 16_384;

export interface PortSocketOptions extends MessageSocketOptions {
  /** The most unacknowledged bytes that either side may send. */
  readonly windowBytes: number | undefined;
}

/**
 * SECURITY: bytes that the port does not accept wait at the client, not here: without a window the
 * socket is not read meanwhile, with one nothing beyond it is accepted. Guarded by
 * port-connections.test.ts.
 */
export class PortSocket extends MessageSocket<PortServerMessage> {
  readonly #windowBytes: number | undefined;
  readonly #failed = Promise.withResolvers<never>();
  #queue: Buffer[] = [];
  /** Received, but not yet accepted by the port. */
  #queuedBytes = 0;
  #clientEnded = false;
  #wakeWriter: (() => void) | undefined;
  /** Sent, but not yet acknowledged. */
  #unacknowledgedBytes = 0;
  #wakeReader: (() => void) | undefined;

  constructor(socket: WebSocket, options: PortSocketOptions) {
    super(socket, options);
    this.#windowBytes = options.windowBytes;
    this.#failed.promise.catch(() => undefined);
    this.signal.addEventListener("abort", () =>
      this.#failed.reject(new ClientGone("the socket is closed")),
    );
  }

  /** Resolves when both sides have ended their output. */
  async join({ readable, writable }: PortConnection): Promise<void> {
    const reader = readable.getReader();
    const writer = writable.getWriter();
    writer.closed.catch(() => undefined);
    this.sendMessage({ type: "connected" });
    this.listen((bytes, isBinary) => this.#receive(bytes, isBinary));
    try {
      const both = Promise.all([this.#sendAll(reader), this.#writeAll(writer)]);
      await Promise.race([both, this.#failed.promise]);
    } catch (error) {
      reader.cancel().catch(() => undefined);
      writer.abort().catch(() => undefined);
      throw error;
    }
  }

  async #sendAll(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<void> {
    for (;;) {
      while (this.#unacknowledgedBytes >= (this.#windowBytes ?? Number.POSITIVE_INFINITY))
        await new Promise<void>((resolve) => (this.#wakeReader = resolve));
      const { value, done } = await reader.read();
      if (done) break;
      this.#unacknowledgedBytes += this.#windowBytes === undefined ? 0 : value.byteLength;
      await this.sendBytes(value);
    }
    this.sendMessage({ type: "eof" });
  }

  async #writeAll(writer: WritableStreamDefaultWriter<Uint8Array>): Promise<void> {
    for (;;) {
      while (this.#queue.length === 0 && !this.#clientEnded)
        await new Promise<void>((resolve) => (this.#wakeWriter = resolve));
      const bytes = this.#queue.shift();
      if (bytes === undefined) break;
      await writer.write(bytes);
      this.#queuedBytes -= bytes.byteLength;
      if (this.#windowBytes !== undefined)
        this.sendMessage({ type: "ack", bytes: bytes.byteLength });
      else if (this.socket.isPaused && this.#queuedBytes <= MAX_QUEUED_BYTES) this.socket.resume();
    }
    await writer.close();
  }

  #receive(bytes: Buffer, isBinary: boolean): void {
    try {
      if (isBinary) this.#enqueue(bytes);
      else this.#control(parseControl(bytes.toString()));
    } catch (error) {
      this.#failed.reject(error);
    }
  }

  #enqueue(bytes: Buffer): void {
    if (bytes.byteLength === 0) return;
    if (this.#clientEnded)
      throw new SandboxError("INVALID_REQUEST", "bytes arrived after the message `eof`");
    this.#queuedBytes += bytes.byteLength;
    const last = this.#queue.at(-1);
    if (last !== undefined && last.byteLength + bytes.byteLength <= MERGED_BYTES)
      this.#queue[this.#queue.length - 1] = Buffer.concat([last, bytes]);
    else this.#queue.push(bytes);
    if (this.#windowBytes === undefined) {
      if (this.#queuedBytes > MAX_QUEUED_BYTES) this.socket.pause();
    } else if (this.#queuedBytes > this.#windowBytes) {
      throw new SandboxError("INVALID_REQUEST", "more bytes arrived than the window allows");
    }
    this.#wakeWriter?.();
  }

  #control(message: PortClientMessage): void {
    if (message.type === "eof") {
      this.#clientEnded = true;
      this.#wakeWriter?.();
      return;
    }
    this.#unacknowledgedBytes -= message.bytes;
    if (this.#unacknowledgedBytes < 0)
      throw new SandboxError("INVALID_REQUEST", "more bytes were acknowledged than were sent");
    this.#wakeReader?.();
  }
}

function parseControl(text: string): PortClientMessage {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    json = undefined;
  }
  const parsed = portClientMessageSchema.safeParse(json);
  if (parsed.success) return parsed.data;
  throw new SandboxError(
    "INVALID_REQUEST",
    "a text message must be of the type eof or ack (bytes); send bytes for the port as binary",
  );
}
