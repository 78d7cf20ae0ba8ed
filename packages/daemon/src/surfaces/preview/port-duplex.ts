/** A connection to a port as a Node stream, for its HTTP client and for splicing. */
import { Duplex } from "node:stream";
import { callbackify } from "node:util";
import type { PortConnection } from "../../ports/channel.ts";

export interface PortDuplexOptions {
  /**
   * Drops bytes that the port no longer accepts: a server may respond and close before it has read
   * a request, and its response counts. The reading side reports failures.
   */
  readonly dropsUnwanted?: boolean;
}

export class PortDuplex extends Duplex {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  readonly #writer: WritableStreamDefaultWriter<Uint8Array>;
  readonly #dropsUnwanted: boolean;

  constructor({ readable, writable }: PortConnection, options: PortDuplexOptions = {}) {
    super({ allowHalfOpen: true });
    this.#dropsUnwanted = options.dropsUnwanted ?? false;
    this.#reader = readable.getReader();
    this.#writer = writable.getWriter();
    // Failures are reported by the write or read that they concern.
    this.#reader.closed.catch(() => undefined);
    this.#writer.closed.catch(() => undefined);
  }

  override _read(): void {
    this.#reader.read().then(
      ({ value, done }) => this.push(done ? null : value),
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
