/** A connection to a port as a stream of Node's, for its HTTP client and for splicing. */
import { Duplex } from "node:stream";
import { callbackify } from "node:util";
import type { PortConnection } from "../../ports/channel.ts";

export interface PortDuplexOptions {
  /**
   * Bytes that the port does not take any more are dropped: a server may answer and close before it has
   * read a request, and its answer counts. What broke is told by the reading side.
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
    // Failures come with the write or the read that they concern.
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
    // An end that does not get through is the end of a connection that has ended.
    callbackify(() => this.#writer.close().catch(() => undefined))(done);
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    // Both give up the same stream of the channel; neither has news for a connection that is given up.
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
