/** Tar headers: written as POSIX, read as POSIX or GNU. */

export const BLOCK_BYTES = 512;

export type TarKind = "file" | "directory" | "symlink" | "hardlink" | "other";

export interface TarHeader {
  readonly path: string;
  readonly kind: TarKind;
  readonly mode: number;
  readonly size: number;
  readonly mtimeSeconds: number;
  /** The target of a link. */
  readonly target: string;
}

/** Fields from an extended header that do not fit into the entry's own header. */
export type TarOverrides = { -readonly [K in "path" | "target" | "size"]?: TarHeader[K] };

export class TarDamaged extends Error {
  override readonly name = "TarDamaged";
}

const FLAGS = { file: "0", hardlink: "1", symlink: "2", directory: "5", other: "3" } as const;
/** Larger sizes do not fit into eleven octal digits. */
const LARGEST_OCTAL = 0o77777777777;

/** The header's blocks, preceded by an extended one if needed. */
export function encodeHeader(header: TarHeader): Buffer {
  const records: Buffer[] = [];
  if (!fits(header.path)) records.push(paxRecord("path", header.path));
  if (!fits(header.target)) records.push(paxRecord("linkpath", header.target));
  if (header.size > LARGEST_OCTAL) records.push(paxRecord("size", String(header.size)));
  const own = plainHeader(header, FLAGS[header.kind]);
  if (records.length === 0) return own;
  const body = Buffer.concat(records);
  const extended = plainHeader(
    { path: "@pax", kind: "other", mode: 0o644, size: body.length, mtimeSeconds: 0, target: "" },
    "x",
  );
  return Buffer.concat([extended, body, padding(body.length), own]);
}

export function padding(size: number): Buffer {
  return Buffer.alloc((BLOCK_BYTES - (size % BLOCK_BYTES)) % BLOCK_BYTES);
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

function plainHeader(header: TarHeader, flag: string): Buffer {
  const block = Buffer.alloc(BLOCK_BYTES);
  const octal = (value: number, at: number, digits: number): void => {
    block.write(`${value.toString(8).padStart(digits, "0")}\0`, at, "latin1");
  };
  block.write(header.path, 0, 100, "utf8");
  octal(header.mode & 0o7777, 100, 7);
  octal(0, 108, 7);
  octal(0, 116, 7);
  octal(Math.min(header.size, LARGEST_OCTAL), 124, 11);
  octal(Math.min(Math.max(0, Math.floor(header.mtimeSeconds)), LARGEST_OCTAL), 136, 11);
  block.write(flag, 156, "latin1");
  block.write(header.target, 157, 100, "utf8");
  block.write("ustar\u000000", 257, "latin1");
  octal(checksum(block), 148, 6);
  block.write(" ", 155, "latin1");
  return block;
}

/** The sum of all bytes, with the checksum field itself as blanks. */
function checksum(block: Buffer): number {
  let sum = 8 * 0x20;
  for (const [at, byte] of block.entries()) if (at < 148 || at >= 156) sum += byte;
  return sum;
}

/** An entry, or a block that describes the next entry. */
export function decodeHeader(block: Buffer): { readonly flag: string; readonly header: TarHeader } {
  if (number(block, 148, 8) !== checksum(block))
    throw new TarDamaged("a header's checksum is wrong");
  const flag = String.fromCharCode(block[156] ?? 0);
  const name = text(block, 0, 100);
  // GNU uses the field for other data where POSIX has the prefix of a long path.
  const isPosix = block.toString("latin1", 257, 263) === "ustar\0";
  const prefix = isPosix ? text(block, 345, 155) : "";
  return {
    flag,
    header: {
      path: prefix === "" ? name : `${prefix}/${name}`,
      kind: kindOf(flag),
      mode: number(block, 100, 8),
      size: number(block, 124, 12),
      mtimeSeconds: number(block, 136, 12),
      target: text(block, 157, 100),
    },
  };
}

function kindOf(flag: string): TarKind {
  switch (flag) {
    case "0":
    case "\0":
    case "7":
      return "file";
    case "1":
      return "hardlink";
    case "2":
      return "symlink";
    case "5":
      return "directory";
    default:
      return "other";
  }
}

/** Records of the form `length key=value\n`, where the length counts itself. */
export function decodePax(body: Buffer): TarOverrides {
  const overrides: TarOverrides = {};
  for (let at = 0; at < body.length;) {
    const space = body.indexOf(0x20, at);
    const length = space < 0 ? Number.NaN : Number(body.toString("latin1", at, space));
    const end = at + length;
    const equals = body.indexOf(0x3d, space);
    const whole = Number.isSafeInteger(length) && length > 0 && end <= body.length;
    if (!whole || equals < 0 || equals >= end || body[end - 1] !== 0x0a)
      throw new TarDamaged("an extended header cannot be read");
    const value = body.toString("utf8", equals + 1, end - 1);
    switch (body.toString("latin1", space + 1, equals)) {
      case "path":
        overrides.path = value;
        break;
      case "linkpath":
        overrides.target = value;
        break;
      case "size":
        if (!/^\d{1,15}$/.test(value)) throw new TarDamaged("an extended header has a wrong size");
        overrides.size = Number(value);
        break;
      default:
    }
    at = end;
  }
  return overrides;
}

/** Text up to the first NUL. */
export function text(block: Buffer, at: number, length: number): string {
  const field = block.subarray(at, at + length);
  const end = field.indexOf(0);
  return field.toString("utf8", 0, end < 0 ? length : end);
}

function number(block: Buffer, at: number, length: number): number {
  const digits = block
    .toString("latin1", at, at + length)
    .replaceAll("\0", " ")
    .trim();
  if (digits === "") return 0;
  if (!/^[0-7]+$/.test(digits)) throw new TarDamaged("a number in a header cannot be read");
  return Number.parseInt(digits, 8);
}
