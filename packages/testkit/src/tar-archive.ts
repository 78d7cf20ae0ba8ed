/** Writes and reads the plain tar archives that the suites and the fake need. */

const BLOCK_BYTES = 512;

export interface TarEntry {
  readonly path: string;
  readonly type: "file" | "dir" | "symlink" | "device";
  readonly mode?: number;
  readonly bytes?: Uint8Array;
  /** The target of a symlink. */
  readonly target?: string;
}

const TYPE_FLAGS = { file: "0", symlink: "2", device: "3", dir: "5" } as const;

export function writeTar(entries: Iterable<TarEntry>): Buffer {
  const blocks: Buffer[] = [];
  for (const entry of entries) {
    const bytes = Buffer.from(entry.bytes ?? []);
    blocks.push(
      header(entry, bytes.byteLength),
      bytes,
      Buffer.alloc(-bytes.byteLength & (BLOCK_BYTES - 1)),
    );
  }
  return Buffer.concat([...blocks, Buffer.alloc(2 * BLOCK_BYTES)]);
}

function header(entry: TarEntry, size: number): Buffer {
  if (Buffer.byteLength(entry.path) > 100)
    throw new Error(`${entry.path} is too long for this small writer`);
  const block = Buffer.alloc(BLOCK_BYTES);
  const octal = (value: number, at: number, width: number): void => {
    block.write(`${value.toString(8).padStart(width - 1, "0")}\0`, at, "latin1");
  };
  block.write(entry.path, 0);
  octal(entry.mode ?? (entry.type === "dir" ? 0o755 : 0o644), 100, 8);
  octal(1000, 108, 8);
  octal(1000, 116, 8);
  octal(size, 124, 12);
  octal(1_700_000_000, 136, 12);
  block.fill(" ", 148, 156);
  block.write(TYPE_FLAGS[entry.type], 156, "latin1");
  block.write(entry.target ?? "", 157);
  block.write("ustar\u000000", 257, "latin1");
  octal(
    block.reduce((sum, byte) => sum + byte, 0),
    148,
    7,
  );
  return block;
}

/** The files, directories and symlinks of an archive; extension headers are skipped. */
export function readTar(archive: Uint8Array): TarEntry[] {
  const buffer = Buffer.from(archive);
  const entries: TarEntry[] = [];
  for (let at = 0; at + BLOCK_BYTES <= buffer.byteLength && buffer[at] !== 0;) {
    const text = (from: number, length: number): string => {
      const field = buffer.subarray(at + from, at + from + length);
      const end = field.indexOf(0);
      return field.toString("utf8", 0, end === -1 ? length : end);
    };
    const size = Number.parseInt(text(124, 12), 8) || 0;
    const prefix = text(345, 155);
    const path = (prefix === "" ? text(0, 100) : `${prefix}/${text(0, 100)}`).replace(/\/$/, "");
    const flag = text(156, 1) || "0";
    const mode = Number.parseInt(text(100, 8), 8);
    const start = at + BLOCK_BYTES;
    if (flag === "0")
      entries.push({ path, type: "file", mode, bytes: buffer.subarray(start, start + size) });
    else if (flag === "2") entries.push({ path, type: "symlink", mode, target: text(157, 100) });
    else if (flag === "3" || flag === "4" || flag === "6")
      entries.push({ path, type: "device", mode });
    else if (flag === "5") entries.push({ path, type: "dir", mode });
    at = start + Math.ceil(size / BLOCK_BYTES) * BLOCK_BYTES;
  }
  return entries;
}
