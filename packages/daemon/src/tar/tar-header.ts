/** Decodes one tar header block and the extended headers that may precede it. */
import { sparseRefused, TarError } from "./tar-error.ts";

export const BLOCK_BYTES = 512;

export interface TarHeader {
  readonly path: string;
  readonly typeFlag: string;
  readonly linkTarget: string;
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
  readonly sizeBytes: number;
  readonly mtimeSeconds: number;
}

/** Fields that an extended header sets for the entry after it. */
export type TarOverrides = {
  -readonly [
    K in "path" | "linkTarget" | "uid" | "gid" | "sizeBytes" | "mtimeSeconds"
  ]?: TarHeader[K];
};

/** What to do with names that are not UTF-8: refuse the archive, or show them with replacement characters. */
export type TarNames = "strict" | "lossy";

const DECODERS = {
  strict: new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }),
  lossy: new TextDecoder("utf-8", { ignoreBOM: true }),
};

/** How many bytes fill a content up to whole blocks. */
export function paddingBytes(sizeBytes: number): number {
  return (BLOCK_BYTES - (sizeBytes % BLOCK_BYTES)) % BLOCK_BYTES;
}

export function decodeHeader(block: Buffer, names: TarNames = "strict"): TarHeader {
  if (readNumber(block, 148, 8) !== checksum(block)) {
    throw new TarError("is not a tar file or is damaged: a header's checksum is wrong");
  }
  const isUstar = block.toString("latin1", 257, 262) === "ustar";
  // GNU tar stores other data where POSIX has the path's prefix.
  const isGnu = block.toString("latin1", 257, 265) === "ustar  \0";
  const name = readText(block, 0, 100, names);
  const prefix = isUstar && !isGnu ? readText(block, 345, 155, names) : "";
  return {
    path: prefix === "" ? name : `${prefix}/${name}`,
    typeFlag: String.fromCharCode(block[156] ?? 0),
    linkTarget: readText(block, 157, 100, names),
    mode: readNumber(block, 100, 8),
    uid: readNumber(block, 108, 8),
    gid: readNumber(block, 116, 8),
    sizeBytes: readNumber(block, 124, 12),
    mtimeSeconds: readNumber(block, 136, 12, { signed: true }),
  };
}

/** Of one extended header: reading more of them takes long, and archives have a handful. */
const MAX_PAX_RECORDS = 1_000;

/** Reads the records `length key=value\n` of a POSIX extended header. Extended attributes are ignored. */
export function decodePaxRecords(body: Buffer, names: TarNames): TarOverrides {
  const overrides: TarOverrides = {};
  let records = 0;
  for (let at = 0; at < body.length;) {
    records += 1;
    if (records > MAX_PAX_RECORDS)
      throw new TarError(`has an extended header of more than ${MAX_PAX_RECORDS} records`);
    const space = body.indexOf(0x20, at);
    const lengthText = space < 0 || space - at > 10 ? "" : body.toString("latin1", at, space);
    const length = /^[1-9][0-9]*$/.test(lengthText) ? Number(lengthText) : 0;
    const end = at + length;
    const equals = body.indexOf(0x3d, space);
    if (
      length === 0 ||
      end > body.length ||
      equals < 0 ||
      equals >= end ||
      body[end - 1] !== 0x0a
    ) {
      throw new TarError("is damaged: an extended header cannot be read");
    }
    applyRecord(
      overrides,
      body.toString("latin1", space + 1, equals),
      body.subarray(equals + 1, end - 1),
      names,
    );
    at = end;
  }
  return overrides;
}

function applyRecord(overrides: TarOverrides, key: string, value: Buffer, names: TarNames): void {
  if (key.startsWith("GNU.sparse.")) throw sparseRefused();
  switch (key) {
    case "path":
      overrides.path = decodeText(value, names);
      break;
    case "linkpath":
      overrides.linkTarget = decodeText(value, names);
      break;
    case "uid":
      overrides.uid = decimal(value);
      break;
    case "gid":
      overrides.gid = decimal(value);
      break;
    case "size":
      overrides.sizeBytes = decimal(value);
      break;
    case "mtime": {
      const seconds = Number(value.toString("latin1"));
      if (!Number.isFinite(seconds)) throw new TarError("is damaged: a time cannot be read");
      overrides.mtimeSeconds = seconds;
      break;
    }
    // Other keys are times we do not keep, comments, or extended attributes. SECURITY: file
    // capabilities are dropped with them: nothing here can set an attribute (threats: gaining
    // privileges and hostile archives and images).
    default:
  }
}

/** Text up to the first NUL. */
export function decodeText(bytes: Buffer, names: TarNames): string {
  const nul = bytes.indexOf(0);
  try {
    return DECODERS[names].decode(nul < 0 ? bytes : bytes.subarray(0, nul));
  } catch (cause) {
    throw new TarError("has a file name that is not UTF-8, which is not supported", { cause });
  }
}

function readText(block: Buffer, offset: number, length: number, names: TarNames): string {
  return decodeText(block.subarray(offset, offset + length), names);
}

/** Octal digits, or big-endian binary if the first bit is set. */
function readNumber(
  block: Buffer,
  offset: number,
  length: number,
  options: { signed?: boolean } = {},
): number {
  const first = block[offset] ?? 0;
  if ((first & 0x80) === 0) {
    const text = block
      .toString("latin1", offset, offset + length)
      .replace(/[\0 ]+$/, "")
      .trimStart();
    if (!/^[0-7]*$/.test(text)) throw badNumber();
    return text === "" ? 0 : Number.parseInt(text, 8);
  }
  const negative = (first & 0x40) !== 0;
  let value = negative ? -1n : 0n;
  for (let i = 0; i < length; i += 1) {
    const byte = block[offset + i] ?? 0;
    // The first byte's top bit only marks the binary form.
    const bits = i === 0 ? (negative ? byte | 0x80 : byte & 0x7f) : byte;
    value = i === 0 ? BigInt(negative ? bits - 256 : bits) : (value << 8n) | BigInt(bits);
  }
  const result = Number(value);
  if (!Number.isSafeInteger(result) || (result < 0 && options.signed !== true)) throw badNumber();
  return result;
}

function decimal(value: Buffer): number {
  const text = value.toString("latin1");
  const result = /^[0-9]{1,16}$/.test(text) ? Number(text) : Number.NaN;
  if (!Number.isSafeInteger(result)) throw badNumber();
  return result;
}

function badNumber(): Error {
  return new TarError("is damaged: a number in a header cannot be read");
}

/** The sum of all bytes, with the checksum field itself as blanks. */
export function checksum(block: Buffer): number {
  let sum = 8 * 0x20;
  for (let i = 0; i < BLOCK_BYTES; i += 1) {
    if (i < 148 || i >= 156) sum += block[i] ?? 0;
  }
  return sum;
}
