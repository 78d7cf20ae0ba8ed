/** The tar archives in which files go into containers and engines, and come out of them. */
import { BLOCK_BYTES, decodeHeader, paddingBytes } from "../../tar/tar-header.ts";
import { encodeHeader, endOfArchive } from "../../tar/tar-writer.ts";

const REGULAR_FILE = "0";

export interface ArchivedFile {
  readonly name: string;
  readonly mode: number;
  readonly bytes: Uint8Array;
}

/** All files are root's. */
export function archiveOf(files: readonly ArchivedFile[]): Buffer {
  return Buffer.concat([...files.map(entryOf), endOfArchive()]);
}

/** A file with its header. */
export function entryOf({ name, mode, bytes }: ArchivedFile): Buffer {
  const padding = Buffer.alloc(paddingBytes(bytes.length));
  return Buffer.concat([headerOf(name, mode, bytes.length), bytes, padding]);
}

/** The header of a regular file owned by root. */
export function headerOf(path: string, mode: number, sizeBytes: number): Buffer {
  return encodeHeader({ path, type: "file", mode, sizeBytes, mtimeSeconds: 0, linkTarget: "" });
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
    at = end + paddingBytes(sizeBytes);
  }
  return undefined;
}
