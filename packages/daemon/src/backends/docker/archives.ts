/** The tar archives in which files go into containers and engines, and come out of them. */
import { BLOCK_BYTES, decodeHeader } from "../../images/tar-header.ts";

const REGULAR_FILE = "0";
const LARGEST_OCTAL_SIZE = 8 ** 11 - 1;

export const END_OF_ARCHIVE: Uint8Array = new Uint8Array(2 * BLOCK_BYTES);

export interface ArchivedFile {
  /** At most 100 characters. */
  readonly name: string;
  readonly mode: number;
  readonly bytes: Uint8Array;
}

/** All files are root's. */
export function archiveOf(files: readonly ArchivedFile[]): Buffer {
  return Buffer.concat([...files.map(entryOf), END_OF_ARCHIVE]);
}

/** A file with its header. */
export function entryOf({ name, mode, bytes }: ArchivedFile): Buffer {
  return Buffer.concat([headerOf(name, mode, bytes.length), bytes, paddingOf(bytes.length)]);
}

/** What follows a file's content, up to the next header. */
export function paddingOf(sizeBytes: number): Buffer {
  return Buffer.alloc((BLOCK_BYTES - (sizeBytes % BLOCK_BYTES)) % BLOCK_BYTES);
}

/** The header of a regular file owned by root. */
export function headerOf(name: string, mode: number, sizeBytes: number): Buffer {
  const header = Buffer.alloc(BLOCK_BYTES);
  const octal = (value: number, at: number, width: number): void => {
    header.write(`${value.toString(8).padStart(width - 1, "0")}\0`, at, "latin1");
  };
  header.write(name, 0, "latin1");
  octal(mode, 100, 8);
  octal(0, 108, 8);
  octal(0, 116, 8);
  if (sizeBytes <= LARGEST_OCTAL_SIZE) octal(sizeBytes, 124, 12);
  else {
    // GNU's encoding for large numbers: the first bit, then the number in binary.
    header.writeUInt8(0x80, 124);
    header.writeBigUInt64BE(BigInt(sizeBytes), 128);
  }
  octal(0, 136, 12);
  header.fill(" ", 148, 156);
  header.write(REGULAR_FILE, 156, "latin1");
  header.write("ustar\u000000", 257, "latin1");
  octal(
    header.reduce((sum, byte) => sum + byte, 0),
    148,
    7,
  );
  return header;
}

/** The first regular file of an archive; undefined when there is none, or it is cut off. */
export function firstFile(archive: Buffer): Buffer | undefined {
  for (let at = 0; at + BLOCK_BYTES <= archive.length;) {
    const block = archive.subarray(at, at + BLOCK_BYTES);
    if (block.every((byte) => byte === 0)) return undefined;
    const { typeFlag, sizeBytes } = decodeHeader(block);
    const begin = at + BLOCK_BYTES;
    const end = begin + sizeBytes;
    if (typeFlag === REGULAR_FILE)
      return end <= archive.length ? archive.subarray(begin, end) : undefined;
    at = end + paddingOf(sizeBytes).length;
  }
  return undefined;
}
