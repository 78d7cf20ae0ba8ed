/** A stream whose bytes are read in small pieces that share turns of the event loop with other work. */
import { Duplex } from "node:stream";
import { ownTurn } from "../event-loop-turn.ts";

const SLICE_BYTES = 16_384;

/**
 * SECURITY: both ends of a connection through the gateway may be hostile. In one read they can send
 * thousands of tiny chunks or requests, each of which costs as much to parse as a large one, and so
 * stall other clients (threat: oversized requests). Guarded by paced-duplex.test.ts.
 */
export class PacedDuplex extends Duplex {
  readonly #inner: Duplex;
  readonly #slices: AsyncGenerator<Uint8Array, undefined>;

  constructor(inner: Duplex) {
    // What is buffered would be handled at once later.
    super({ allowHalfOpen: true, readableHighWaterMark: 1 });
    this.#inner = inner;
    this.#slices = slicesOf(inner);
    inner.on("error", (error) => this.destroy(error));
    // Reads and writes would report it as well, but there may be none.
    inner.once("close", () => {
      if (!inner.readableEnded || !inner.writableFinished) this.destroy();
    });
  }

  override _read(): void {
    this.#slices.next().then(
      ({ value }) => void this.push(value ?? null),
      (error: unknown) => this.destroy(error instanceof Error ? error : new Error(String(error))),
    );
  }

  override _write(
    bytes: Buffer,
    _encoding: BufferEncoding,
    done: (error?: Error | null) => void,
  ): void {
    this.#inner.write(bytes, done);
  }

  override _final(done: (error?: Error | null) => void): void {
    this.#inner.end(() => done());
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#inner.destroy();
    done(error);
  }
}

async function* slicesOf(source: Duplex): AsyncGenerator<Uint8Array, undefined> {
  for await (const chunk of source.iterator({ destroyOnReturn: false })) {
    const bytes = chunk as Uint8Array;
    for (let at = 0; at < bytes.byteLength; at += SLICE_BYTES) {
      await ownTurn();
      yield bytes.subarray(at, at + SLICE_BYTES);
    }
  }
  return undefined;
}
