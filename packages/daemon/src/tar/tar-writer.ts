/** Writes tar headers, in the POSIX format. All entries are root's. */
import { BLOCK_BYTES, checksum, paddingBytes } from "./tar-header.ts";
import type { TarEntryType } from "./tar-reader.ts";

export interface NewTarEntry {
  readonly path: string;
  readonly type: Exclude<TarEntryType, "device" | "fifo">;
  readonly mode: number;
  /** Bytes of the content that follows, padded to whole blocks. */
  readonly sizeBytes: number;
  readonly mtimeSeconds: number;
  /** Empty for all but links. */
  readonly linkTarget: string;
}

const FLAGS = { file: "0", hardlink: "1", symlink: "2", directory: "5" } as const;
const EXTENDED_HEADER = "x";
/** Larger numbers do not fit into eleven octal digits. */
const LARGEST_OCTAL = 0o77777777777;

export function endOfArchive(): Buffer {
  return Buffer.alloc(2 * BLOCK_BYTES);
}

/** The header's blocks, preceded by an extended one if needed. */
export function encodeHeader(entry: NewTarEntry): Buffer {
  const records: Buffer[] = [];
  if (!fits(entry.path)) records.push(paxRecord("path", entry.path));
  if (!fits(entry.linkTarget)) records.push(paxRecord("linkpath", entry.linkTarget));
  if (entry.sizeBytes > LARGEST_OCTAL) records.push(paxRecord("size", String(entry.sizeBytes)));
  const own = plainHeader(entry, FLAGS[entry.type]);
  if (records.length === 0) return own;
  const body = Buffer.concat(records);
  const extended = plainHeader(
    { path: "@pax", mode: 0o644, sizeBytes: body.length, mtimeSeconds: 0, linkTarget: "" },
    EXTENDED_HEADER,
  );
  return Buffer.concat([extended, body, Buffer.alloc(paddingBytes(body.length)), own]);
}

function fits(text: string): boolean {
  return /^[\x20-\x7e]*$/.test(text) && text.length <= 100;
}

function paxRecord(key: string, value: string): Buffer {
  const rest = Buffer.byteLength(` ${key}=${value}\n`);
  let length = rest + 1;
  while (length !== rest + String(length).length) length = rest + String(length).length;
  return Buffer.from(`${length} ${key}=${value}\n`);
}

function plainHeader(entry: Omit<NewTarEntry, "type">, flag: string): Buffer {
  const block = Buffer.alloc(BLOCK_BYTES);
  const octal = (value: number, at: number, digits: number): void => {
    block.write(`${value.toString(8).padStart(digits, "0")}\0`, at, "latin1");
  };
  block.write(entry.path, 0, 100, "utf8");
  octal(entry.mode & 0o7777, 100, 7);
  octal(0, 108, 7);
  octal(0, 116, 7);
  octal(Math.min(entry.sizeBytes, LARGEST_OCTAL), 124, 11);
  octal(Math.min(Math.max(0, Math.floor(entry.mtimeSeconds)), LARGEST_OCTAL), 136, 11);
  block.write(flag, 156, "latin1");
  block.write(entry.linkTarget, 157, 100, "utf8");
  block.write("ustar\u000000", 257, "latin1");
  octal(checksum(block), 148, 6);
  block.write(" ", 155, "latin1");
  return block;
}
