/** A connection to a port as a Node stream, for its HTTP client and for splicing. */
import { Duplex } from "node:stream";
import { callbackify } from "node:util";
import { ownTurn } from "../../event-loop-turn.ts";
import type { PortConnection } from "../../ports/channel.ts";

export interface PortDuplexOptions {
  /**
   * Drops bytes that the port no longer accepts: a server may respond and close before it has read
   * a request, and its response counts. The reading side reports failures.
   */
  readonly dropsUnwanted?: boolean;
}

/** How many bytes of the port are handled without a pause. */
const SLICE_BYTES = 16_384;

/**
 * SECURITY: a hostile server cuts its response into chunks of one byte, or sends thousands of
 * provisional responses, each of which costs as much to read as a large one. Without pauses, a few
 * responses would stall other clients (threat: oversized requests). Guarded by port-duplex.test.ts.
 */
export class PortDuplex extends Duplex {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  readonly #writer: WritableStreamDefaultWriter<Uint8Array>;
  readonly #dropsUnwanted: boolean;
  #unread: Uint8Array = new Uint8Array();

  constructor({ readable, writable }: PortConnection, options: PortDuplexOptions = {}) {
    // What is buffered would be handled at once later.
    super({ allowHalfOpen: true, readableHighWaterMark: 1 });
    this.#dropsUnwanted = options.dropsUnwanted ?? false;
    this.#reader = readable.getReader();
    this.#writer = writable.getWriter();
    // Failures are reported by the write or read that they concern.
    this.#reader.closed.catch(() => undefined);
    this.#writer.closed.catch(() => undefined);
  }

  override _read(): void {
    this.#nextSlice().then(
      (slice) => void this.push(slice),
      (error: unknown) => this.destroy(asError(error)),
    );
  }

  override _write(
    bytes: Buffer,
    _encoding: BufferEncoding,
    done: (error: Error | null) => void,
  ): void {
    callbackify(() => this.#send(bytes))(done);
  }

  override _final(done: (error: Error | null) => void): void {
    // If the end cannot be sent, the connection has already ended.
    callbackify(() => this.#writer.close().catch(() => undefined))(done);
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    // Both cancel the same stream of the channel; errors are irrelevant for a cancelled connection.
    this.#reader.cancel().catch(() => undefined);
    this.#writer.abort().catch(() => undefined);
    done(error);
  }

  async #nextSlice(): Promise<Uint8Array | null> {
    while (this.#unread.byteLength === 0) {
      const { value, done } = await this.#reader.read();
      if (done) return null;
      this.#unread = value;
    }
    await ownTurn();
    const slice = this.#unread.subarray(0, SLICE_BYTES);
    this.#unread = this.#unread.subarray(SLICE_BYTES);
    return slice;
  }

  async #send(bytes: Buffer): Promise<void> {
    try {
      await this.#writer.write(bytes);
    } catch (error) {
      if (!this.#dropsUnwanted) throw asError(error);
    }
  }
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}
