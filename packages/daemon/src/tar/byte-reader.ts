/** Reads exact numbers of bytes from a stream of chunks. */
import { truncated } from "./tar-error.ts";

export class ByteReader {
  readonly #source: AsyncIterator<Uint8Array>;
  #chunk: Buffer = Buffer.alloc(0);

  constructor(source: AsyncIterable<Uint8Array>) {
    this.#source = source[Symbol.asyncIterator]();
  }

  /** Exactly `count` bytes, or undefined if the stream ended before the first of them. */
  async take(count: number): Promise<Buffer | undefined> {
    const first = await this.some(count);
    if (first === undefined || first.length === count) return first;
    const parts = [first];
    for (let missing = count - first.length; missing > 0;) {
      const part = await this.some(missing);
      if (part === undefined) throw truncated();
      parts.push(part);
      missing -= part.length;
    }
    return Buffer.concat(parts, count);
  }

  /** Between one and `max` bytes, or undefined at the end of the stream. */
  async some(max: number): Promise<Buffer | undefined> {
    while (this.#chunk.length === 0) {
      const next = await this.#source.next();
      if (next.done === true) return undefined;
      const { buffer, byteOffset, byteLength } = next.value;
      this.#chunk = Buffer.from(buffer, byteOffset, byteLength);
    }
    const part = this.#chunk.subarray(0, max);
    this.#chunk = this.#chunk.subarray(part.length);
    return part;
  }

  async skip(count: number): Promise<void> {
    for (let missing = count; missing > 0;) {
      const part = await this.some(missing);
      if (part === undefined) throw truncated();
      missing -= part.length;
    }
  }

  /** Closes the stream, even in the middle. */
  async close(): Promise<void> {
    await this.#source.return?.();
  }
}
