/** Reads a tar stream entry by entry: ustar, POSIX extended headers and GNU long names. */
import { ByteReader } from "./byte-reader.ts";
import { sparseRefused, TarError, truncated } from "./tar-error.ts";
import {
  BLOCK_BYTES,
  decodeHeader,
  decodePaxRecords,
  decodeText,
  paddingBytes,
} from "./tar-header.ts";
import type { TarHeader, TarNames, TarOverrides } from "./tar-header.ts";

export type TarEntryType = "file" | "directory" | "symlink" | "hardlink" | "device" | "fifo";

export interface TarEntry {
  readonly type: TarEntryType;
  readonly path: string;
  readonly linkTarget: string;
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
  readonly mtimeSeconds: number;
  /** Bytes of content; 0 for all but files. */
  readonly sizeBytes: number;
  /** The content. Anything unread when the next entry is requested is skipped. */
  body(): AsyncGenerator<Buffer>;
}

const MAX_EXTENDED_HEADER_BYTES = 1024 * 1024;
const BODY_CHUNK_BYTES = 1024 * 1024;

const TYPES: ReadonlyMap<string, TarEntryType> = new Map([
  ["0", "file"],
  ["\0", "file"],
  ["7", "file"],
  ["1", "hardlink"],
  ["2", "symlink"],
  ["3", "device"],
  ["4", "device"],
  ["5", "directory"],
  ["6", "fifo"],
]);

export interface TarOptions {
  /** "optional" where a checksum has already shown that the archive is complete. */
  readonly endMarker: "required" | "optional";
  /** "strict" when absent. */
  readonly names?: TarNames;
}

/** Yields the entries up to the end marker; what follows it is not read. Throws a `TarError`. */
export async function* readTar(
  source: AsyncIterable<Uint8Array>,
  { endMarker, names = "strict" }: TarOptions,
): AsyncGenerator<TarEntry> {
  const reader = new ByteReader(source);
  try {
    let overrides: TarOverrides = {};
    for (;;) {
      const block = await reader.take(BLOCK_BYTES);
      if (block === undefined) {
        if (endMarker === "required") throw truncated();
        return;
      }
      if (block.every((byte) => byte === 0)) return;
      const header = decodeHeader(block, names);
      const extension = await readExtension(reader, header, names);
      if (extension !== undefined) {
        overrides = { ...overrides, ...extension };
        continue;
      }
      const content = new EntryContent(reader, { ...header, ...overrides });
      overrides = {};
      yield content.entry;
      await content.skipRest();
    }
  } finally {
    await reader.close();
  }
}

/** Reads a header that only describes the next one; undefined if this is an entry itself. */
async function readExtension(
  reader: ByteReader,
  header: TarHeader,
  names: TarNames,
): Promise<TarOverrides | undefined> {
  if (!"xgLK".includes(header.typeFlag)) return undefined;
  if (header.sizeBytes > MAX_EXTENDED_HEADER_BYTES) {
    throw new TarError(`has an extended header of ${header.sizeBytes} bytes, which is too large`);
  }
  const padded = header.sizeBytes + paddingBytes(header.sizeBytes);
  const body = padded === 0 ? Buffer.alloc(0) : await reader.take(padded);
  if (body === undefined) throw truncated();
  const text = body.subarray(0, header.sizeBytes);
  switch (header.typeFlag) {
    case "x":
      return decodePaxRecords(text, names);
    case "L":
      return { path: decodeText(text, names) };
    case "K":
      return { linkTarget: decodeText(text, names) };
    default:
      // A global header carries comments; it must not change later entries.
      return {};
  }
}

class EntryContent {
  readonly entry: TarEntry;
  readonly #reader: ByteReader;
  #unread: number;
  readonly #padding: number;

  constructor(reader: ByteReader, header: TarHeader) {
    if (header.typeFlag === "S") throw sparseRefused();
    let type = TYPES.get(header.typeFlag);
    if (type === undefined) {
      const [path, flag] = [header.path.slice(0, 120), header.typeFlag].map((text) =>
        JSON.stringify(text),
      );
      throw new TarError(`has the entry ${path} of the unknown type ${flag}`);
    }
    // The oldest tar format marks a directory only by a trailing slash.
    if (type === "file" && header.path.endsWith("/")) type = "directory";
    const sizeBytes = type === "file" ? header.sizeBytes : 0;
    this.#reader = reader;
    this.#unread = sizeBytes;
    this.#padding = paddingBytes(sizeBytes);
    this.entry = {
      type,
      path: header.path,
      linkTarget: header.linkTarget,
      mode: header.mode,
      uid: header.uid,
      gid: header.gid,
      mtimeSeconds: header.mtimeSeconds,
      sizeBytes,
      body: () => this.#read(),
    };
  }

  async *#read(): AsyncGenerator<Buffer> {
    while (this.#unread > 0) {
      const part = await this.#reader.some(Math.min(this.#unread, BODY_CHUNK_BYTES));
      if (part === undefined) throw truncated();
      this.#unread -= part.length;
      yield part;
    }
  }

  async skipRest(): Promise<void> {
    await this.#reader.skip(this.#unread + this.#padding);
    this.#unread = 0;
  }
}
