/** The WebSocket of a port connection: binary messages are its bytes, text messages are control messages. */
import type { PortClientMessage, PortServerMessage } from "@sandkasten/protocol";
import { deferred } from "./deferred.ts";
import { connectionFailed, errorFromBody } from "./errors-from-wire.ts";
import { SandboxError } from "./sandbox-error.ts";
import type { WebSocketLike } from "./web-socket.ts";

const NORMAL_CLOSURE = 1000;

export class PortLink {
  /** Resolves when the port has accepted the connection. */
  readonly connected: Promise<void>;
  readonly #socket: WebSocketLike;
  readonly #windowBytes: number;
  readonly #signal: AbortSignal | undefined;
  readonly #connected = deferred<void>();
  readonly #onAbort = (): void => this.#finish(this.#signal?.reason);
  readonly #queue: Uint8Array[] = [];
  #accepted = false;
  /** The port has ended its output. */
  #portEnded = false;
  /** We have ended our output. */
  #ended = false;
  #over: { readonly error: unknown } | undefined;
  #unacknowledgedBytes = 0;
  #wakeReader: (() => void) | undefined;
  #wakeWriter: (() => void) | undefined;

  constructor(socket: WebSocketLike, windowBytes: number, signal: AbortSignal | undefined) {
    this.#socket = socket;
    this.#windowBytes = windowBytes;
    this.#signal = signal;
    this.connected = this.#connected.promise;
    this.connected.catch(() => undefined);
    socket.binaryType = "arraybuffer";
    socket.addEventListener("open", () => {
      this.#accepted = true;
    });
    socket.addEventListener("message", ({ data }) => this.#receive(data));
    socket.addEventListener("close", ({ code, reason }) => {
      const why = reason === "" ? `code ${code}` : reason;
      // Both sides have ended; what has arrived can still be read.
      this.#finish(this.#portEnded && code === NORMAL_CLOSURE ? undefined : brokenOff(why));
    });
    // It carries no information; a runtime that sends no `close` after it must not leave us
    // waiting.
    socket.addEventListener("error", () => this.#finish(brokenOff("no reason given")));
    if (signal?.aborted === true) this.#onAbort();
    else signal?.addEventListener("abort", this.#onAbort, { once: true });
  }

  /** Whether the daemon accepted the WebSocket. */
  get accepted(): boolean {
    return this.#accepted;
  }

  /** The next bytes from the port; undefined at the end. */
  async next(): Promise<Uint8Array | undefined> {
    for (;;) {
      const bytes = this.#queue.shift();
      if (bytes !== undefined) {
        this.#sendMessage({ type: "ack", bytes: bytes.length });
        return bytes;
      }
      if (this.#portEnded) return undefined;
      if (this.#over !== undefined) throw this.#over.error;
      await new Promise<void>((resolve) => {
        this.#wakeReader = resolve;
      });
    }
  }

  /** Resolves when more may be sent. */
  async send(bytes: Uint8Array<ArrayBuffer>): Promise<void> {
    while (
      this.#over === undefined &&
      this.#unacknowledgedBytes + bytes.length > this.#windowBytes
    ) {
      await new Promise<void>((resolve) => {
        this.#wakeWriter = resolve;
      });
    }
    if (this.#over !== undefined)
      throw this.#over.error instanceof Error ? this.#over.error : brokenOff("it has ended");
    this.#unacknowledgedBytes += bytes.length;
    this.#socket.send(bytes);
  }

  /** Ends our output. */
  end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#sendMessage({ type: "eof" });
  }

  close(): void {
    this.#finish(new SandboxError("CANCELLED", "The connection was closed here."));
  }

  #sendMessage(message: PortClientMessage): void {
    if (this.#over === undefined) this.#socket.send(JSON.stringify(message));
  }

  #receive(data: unknown): void {
    if (data instanceof ArrayBuffer) {
      this.#queue.push(new Uint8Array(data));
      this.#wakeReader?.();
    }
    if (typeof data !== "string") return;
    try {
      this.#control(JSON.parse(data) as PortServerMessage);
    } catch (error) {
      this.#finish(connectionFailed("The connection to the port", error));
    }
  }

  #control(message: PortServerMessage): void {
    if (message.type === "connected") this.#connected.resolve();
    else if (message.type === "error") this.#finish(errorFromBody(message.error));
    else if (message.type === "eof") {
      this.#portEnded = true;
      this.#wakeReader?.();
    } else {
      this.#unacknowledgedBytes -= message.bytes;
      this.#wakeWriter?.();
    }
  }

  /** Without an error it has ended normally. */
  #finish(error: unknown): void {
    if (this.#over !== undefined) return;
    this.#over = { error };
    this.#signal?.removeEventListener("abort", this.#onAbort);
    this.#connected.reject(error ?? brokenOff("it ended before it began"));
    this.#wakeReader?.();
    this.#wakeWriter?.();
    this.#socket.close(NORMAL_CLOSURE);
  }
}

function brokenOff(why: string): SandboxError {
  return new SandboxError("CONNECTION_FAILED", `The connection to the port broke off (${why}).`);
}
