/** Reads exact numbers of bytes from a stream of chunks. */
import { invalidImage } from "./image-failure.ts";

export class ByteReader {
  readonly #source: AsyncIterator<Buffer>;
  #chunk: Buffer = Buffer.alloc(0);

  constructor(source: AsyncIterable<Buffer>) {
    this.#source = source[Symbol.asyncIterator]();
  }

  /** Exactly `count` bytes, or undefined if the stream ended before the first of them. */
  async take(count: number): Promise<Buffer | undefined> {
    const first = await this.some(count);
    if (first === undefined || first.length === count) return first;
    const parts = [first];
    for (let missing = count - first.length; missing > 0;) {
      const part = await this.some(missing);
      if (part === undefined) throw cutOff();
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
      this.#chunk = next.value;
    }
    const part = this.#chunk.subarray(0, max);
    this.#chunk = this.#chunk.subarray(part.length);
    return part;
  }

  async skip(count: number): Promise<void> {
    for (let missing = count; missing > 0;) {
      const part = await this.some(missing);
      if (part === undefined) throw cutOff();
      missing -= part.length;
    }
  }

  /** Closes the stream, even in the middle. */
  async close(): Promise<void> {
    await this.#source.return?.();
  }
}

export function cutOff(): Error {
  return invalidImage("The archive is truncated. Create or download it again.");
}
