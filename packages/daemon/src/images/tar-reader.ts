/** Reads a tar stream entry by entry: ustar, POSIX extended headers and GNU long names. */
import { ByteReader, cutOff } from "./byte-reader.ts";
import { invalidImage } from "./image-failure.ts";
import { shown } from "./image-path.ts";
import {
  BLOCK_BYTES,
  decodeHeader,
  decodePaxRecords,
  decodeText,
  sparseRefused,
} from "./tar-header.ts";
import type { TarHeader, TarOverrides } from "./tar-header.ts";

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

/**
 * Yields the entries up to the end marker. An archive without one is refused as truncated, unless
 * `endMarker` is "optional" because a checksum has already shown that it is complete.
 */
export async function* readTar(
  source: AsyncIterable<Buffer>,
  options: { readonly endMarker: "required" | "optional" },
): AsyncGenerator<TarEntry> {
  const reader = new ByteReader(source);
  try {
    let overrides: TarOverrides = {};
    for (;;) {
      const block = await reader.take(BLOCK_BYTES);
      if (block === undefined) {
        if (options.endMarker === "required") throw cutOff();
        return;
      }
      if (block.every((byte) => byte === 0)) return;
      const header = decodeHeader(block);
      const extension = await readExtension(reader, header);
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
): Promise<TarOverrides | undefined> {
  if (!"xgLK".includes(header.typeFlag)) return undefined;
  if (header.sizeBytes > MAX_EXTENDED_HEADER_BYTES) {
    throw invalidImage(
      `The archive has an extended header of ${header.sizeBytes} bytes, which is too large.`,
    );
  }
  const padded = header.sizeBytes + padding(header.sizeBytes);
  const body = padded === 0 ? Buffer.alloc(0) : await reader.take(padded);
  if (body === undefined) throw cutOff();
  const text = body.subarray(0, header.sizeBytes);
  switch (header.typeFlag) {
    case "x":
      return decodePaxRecords(text);
    case "L":
      return { path: decodeText(text) };
    case "K":
      return { linkTarget: decodeText(text) };
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
      throw invalidImage(
        `The archive's entry ${shown(header.path)} is of unknown type ${shown(header.typeFlag)}.`,
      );
    }
    // The oldest tar format marks a directory only by a trailing slash.
    if (type === "file" && header.path.endsWith("/")) type = "directory";
    const sizeBytes = type === "file" ? header.sizeBytes : 0;
    this.#reader = reader;
    this.#unread = sizeBytes;
    this.#padding = padding(sizeBytes);
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
      if (part === undefined) throw cutOff();
      this.#unread -= part.length;
      yield part;
    }
  }

  async skipRest(): Promise<void> {
    await this.#reader.skip(this.#unread + this.#padding);
    this.#unread = 0;
  }
}

function padding(sizeBytes: number): number {
  return (BLOCK_BYTES - (sizeBytes % BLOCK_BYTES)) % BLOCK_BYTES;
}
