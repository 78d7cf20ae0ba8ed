/** Reads a tar stream entry by entry, with bounded memory. */
import {
  BLOCK_BYTES,
  decodeHeader,
  decodePax,
  TarDamaged,
  type TarHeader,
  type TarOverrides,
  text,
} from "./tar-header.ts";

/** Extended headers and long names are held in memory. */
const MAX_EXTENDED_BYTES = 1 << 20;

export interface TarEntry {
  readonly header: TarHeader;
  /** Unread content is skipped. */
  readonly content: AsyncIterable<Uint8Array>;
}

export async function* readTar(
  archive: AsyncIterable<Uint8Array>,
): AsyncGenerator<TarEntry, void, undefined> {
  const bytes = new ByteReader(archive);
  let overrides: TarOverrides = {};
  for (;;) {
    const block = await bytes.exactly(BLOCK_BYTES);
    // Two zero blocks end an archive; some writers only write one.
    if (block.every((byte) => byte === 0)) break;
    const { flag, header } = decodeHeader(block);
    if (flag === "x")
      overrides = { ...overrides, ...decodePax(await extended(bytes, header.size)) };
    else if (flag === "L") overrides.path = await longText(bytes, header.size);
    else if (flag === "K") overrides.target = await longText(bytes, header.size);
    else if (flag === "g") await extended(bytes, header.size);
    else {
      const entry = { ...header, ...overrides };
      overrides = {};
      const content = bytes.piecesOf(entry.size);
      yield { header: entry, content };
      for await (const _ of content);
      await bytes.exactly(paddingBytes(entry.size));
    }
  }
  await bytes.drain();
}

async function extended(bytes: ByteReader, size: number): Promise<Buffer> {
  if (size > MAX_EXTENDED_BYTES) throw new TarDamaged("an extended header is too large");
  const body = await bytes.exactly(size);
  await bytes.exactly(paddingBytes(size));
  return body;
}

async function longText(bytes: ByteReader, size: number): Promise<string> {
  const body = await extended(bytes, size);
  return text(body, 0, body.length);
}

function paddingBytes(size: number): number {
  return (BLOCK_BYTES - (size % BLOCK_BYTES)) % BLOCK_BYTES;
}

class ByteReader {
  readonly #source: AsyncIterator<Uint8Array>;
  #rest: Buffer = Buffer.alloc(0);

  constructor(source: AsyncIterable<Uint8Array>) {
    this.#source = source[Symbol.asyncIterator]();
  }

  async exactly(size: number): Promise<Buffer> {
    const pieces: Buffer[] = [];
    for (let missing = size; missing > 0;) {
      const piece = await this.#some(missing);
      pieces.push(piece);
      missing -= piece.length;
    }
    return pieces.length === 1 && pieces[0] !== undefined ? pieces[0] : Buffer.concat(pieces);
  }

  /** The next bytes, piece by piece; continues where an earlier reader stopped. */
  piecesOf(size: number): AsyncIterable<Uint8Array> {
    let missing = size;
    const next = async (): Promise<IteratorResult<Uint8Array>> => {
      if (missing === 0) return { done: true, value: undefined };
      const piece = await this.#some(missing);
      missing -= piece.length;
      return { done: false, value: piece };
    };
    return { [Symbol.asyncIterator]: () => ({ next }) };
  }

  /** Reads the padding after the end, so the sender is not left waiting. */
  async drain(): Promise<void> {
    while ((await this.#source.next()).done !== true);
  }

  async #some(atMost: number): Promise<Buffer> {
    while (this.#rest.length === 0) {
      const { done, value } = await this.#source.next();
      if (done === true) throw new TarDamaged("it is truncated");
      this.#rest = Buffer.from(value.buffer, value.byteOffset, value.byteLength);
    }
    const piece = this.#rest.subarray(0, atMost);
    this.#rest = this.#rest.subarray(piece.length);
    return piece;
  }
}
