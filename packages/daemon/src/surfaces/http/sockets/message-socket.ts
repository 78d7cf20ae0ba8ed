/** A WebSocket of the API: binary output with backpressure, text messages, pings, and a closing handshake. */
import type { WebSocket } from "@fastify/websocket";
import { ObservedDeadline } from "../../../observed-deadline.ts";
import { ClientGone } from "../responses/response-writer.ts";
import { answerPings } from "./socket-pongs.ts";

/** The maximum of unsent bytes in memory. */
const MAX_BUFFERED_BYTES = 1_048_576;

type RawData = Buffer | ArrayBuffer | Buffer[];

/** Close codes of a socket; errors have 4000 plus their HTTP status. */
export const CLOSE_CODES = { ended: 1000, stopping: 1001 } as const;

export interface MessageSocketOptions {
  readonly stallTimeoutMs: number;
  readonly pingIntervalMs: number;
}

interface ErrorMessage {
  readonly type: "error";
  readonly error: { readonly error_code: string; readonly message: string };
}

export class MessageSocket<ServerMessage extends object> implements Disposable {
  protected readonly socket: WebSocket;
  readonly #options: MessageSocketOptions;
  readonly #closed = new AbortController();
  #ping: ObservedDeadline;
  #answered = true;

  /** Nothing is read from the socket before there is a receiver. */
  constructor(socket: WebSocket, options: MessageSocketOptions) {
    this.socket = socket;
    this.#options = options;
    socket.pause();
    socket.once("close", () => this.#closed.abort());
    socket.on("pong", () => (this.#answered = true));
    answerPings(socket);
    this.#ping = this.#nextPing();
  }

  /** Fires when the socket is closed. */
  get signal(): AbortSignal {
    return this.#closed.signal;
  }

  sendMessage(message: ServerMessage | ErrorMessage): void {
    if (this.socket.readyState === this.socket.OPEN) this.socket.send(JSON.stringify(message));
  }

  /** Does nothing when the socket is closing already. */
  close(code: number, reason: string): void {
    if (this.socket.readyState !== this.socket.OPEN) return;
    // The peer's close frame must be read.
    this.socket.resume();
    this.socket.close(code, reason);
    // A peer that does not answer the close frame is not waited for.
    const deadline = this.#terminateLater();
    this.socket.once("close", () => deadline.stop());
  }

  fail(error: { readonly status: number; readonly code: string; readonly message: string }): void {
    this.sendMessage({ type: "error", error: { error_code: error.code, message: error.message } });
    this.close(4000 + error.status, error.code);
  }

  [Symbol.dispose](): void {
    this.#ping.stop();
  }

  /**
   * Starts reading; each message is passed on as it arrives.
   *
   * SECURITY: a client that is refused can go on sending until the socket is closed. None of that
   * may cost anything. Guarded by stalls.test.ts.
   */
  protected listen(receive: (bytes: Buffer, isBinary: boolean) => void): void {
    this.socket.on("message", (data, isBinary) => {
      if (this.socket.readyState === this.socket.OPEN) receive(bufferOf(data), isBinary);
    });
    this.socket.resume();
  }

  /** Resolves when more may be sent. Rejects with ClientGone. */
  protected async sendBytes(bytes: Uint8Array): Promise<void> {
    if (this.socket.readyState !== this.socket.OPEN) throw new ClientGone("the socket is closed");
    const sent = new Promise<void>((resolve, reject) =>
      this.socket.send(bytes, { binary: true }, (error) =>
        error instanceof Error
          ? reject(new ClientGone("the socket is closed", { cause: error }))
          : resolve(),
      ),
    );
    // Awaited only under backpressure; a failure shows at the next send.
    sent.catch(() => undefined);
    if (this.socket.bufferedAmount > MAX_BUFFERED_BYTES) await this.#untilStall(sent);
  }

  async #untilStall(sent: Promise<void>): Promise<void> {
    const deadline = this.#terminateLater();
    try {
      await sent;
    } finally {
      deadline.stop();
    }
  }

  #terminateLater(): ObservedDeadline {
    return new ObservedDeadline(this.#options.stallTimeoutMs, () => this.socket.terminate());
  }

  #nextPing(): ObservedDeadline {
    return new ObservedDeadline(this.#options.pingIntervalMs, () => {
      this.#ping = this.#nextPing();
      this.#checkAlive();
    });
  }

  /** While we do not read, a pong cannot be seen. */
  #checkAlive(): void {
    if (this.socket.readyState !== this.socket.OPEN || this.socket.isPaused) return;
    if (!this.#answered) {
      this.socket.terminate();
      return;
    }
    this.#answered = false;
    this.socket.ping();
  }
}

function bufferOf(data: RawData): Buffer {
  if (Buffer.isBuffer(data)) return data;
  return Array.isArray(data) ? Buffer.concat(data) : Buffer.from(data);
}
