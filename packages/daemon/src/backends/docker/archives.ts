/** The tar archives in which files go into containers and come out of them. */

const BLOCK_BYTES = 512;
const REGULAR_FILE = "0".charCodeAt(0);

export interface ArchivedFile {
  /** At most 100 characters. */
  readonly name: string;
  readonly mode: number;
  readonly bytes: Uint8Array;
}

/** All files are root's. */
export function archiveOf(files: readonly ArchivedFile[]): Buffer {
  const blocks = files.flatMap(({ name, mode, bytes }) => [
    headerOf(name, mode, bytes.length),
    bytes,
    Buffer.alloc(-bytes.length & (BLOCK_BYTES - 1)),
  ]);
  return Buffer.concat([...blocks, Buffer.alloc(2 * BLOCK_BYTES)]);
}

function headerOf(name: string, mode: number, size: number): Buffer {
  const header = Buffer.alloc(BLOCK_BYTES);
  const octal = (value: number, at: number, width: number): void => {
    header.write(`${value.toString(8).padStart(width - 1, "0")}\0`, at, "latin1");
  };
  header.write(name, 0, "latin1");
  octal(mode, 100, 8);
  octal(0, 108, 8);
  octal(0, 116, 8);
  octal(size, 124, 12);
  octal(0, 136, 12);
  header.fill(" ", 148, 156);
  header[156] = REGULAR_FILE;
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
    const size = Number.parseInt(archive.toString("latin1", at + 124, at + 136), 8);
    if (!(size >= 0)) return undefined;
    const begin = at + BLOCK_BYTES;
    if (archive[at + 156] === REGULAR_FILE)
      return begin + size <= archive.length ? archive.subarray(begin, begin + size) : undefined;
    at = begin + size + (-size & (BLOCK_BYTES - 1));
  }
  return undefined;
}
