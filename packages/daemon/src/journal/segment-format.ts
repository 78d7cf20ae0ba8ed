/**
 * The on-disk format of output. A command's output is a sequence of segments, files named by the
 * offset of their first byte. A segment is a header and then records, each a header and the bytes of
 * one chunk; numbers are little-endian.
 *
 * segment: magic u32, CRC-32 of all that follows u32, then as u64: first offset, first sequence
 * number, bytes of stdout and of stderr before it, lost bytes before it, bytes in the half that is
 * kept permanently.
 * record: 128 + stream u8, mark u8, sequence number u48, length u32, time f64, CRC-32 of everything
 * before it and of the bytes u32.
 *
 * The first version had no checksums, and headers of the same length. Its files can still be read.
 * segment: another magic, version u32, then as above. record: stream u8, three zero bytes, length u32,
 * sequence number u64, time f64.
 */
import { crc32 } from "node:zlib";
import type { OutputStream } from "@sandkasten/protocol";

export const SEGMENT_HEADER_BYTES = 56;
export const RECORD_HEADER_BYTES = 24;
/** Longer chunks become several records, so an impossible length is detected at once. */
export const MAX_RECORD_BYTES = 16 * 1024 * 1024;

/** What a writer must know to continue after the earlier segments. */
export interface SegmentHeader {
  readonly firstOffset: number;
  readonly firstSeq: number;
  readonly stdoutBytes: number;
  readonly stderrBytes: number;
  /** Counted but never written. */
  readonly skippedBytes: number;
  /** Written to the permanently kept segments; 0 in those themselves. */
  readonly headBytes: number;
}

export interface RecordHeader {
  readonly stream: OutputStream;
  readonly length: number;
  readonly seq: number;
  readonly timestampMs: number;
}

/** A record's header as read from disk. */
export interface FoundRecord extends RecordHeader {
  /** The expected checksum, and the checksum of the header alone; absent in the first version. */
  readonly checksum?: { readonly expected: number; readonly ofHeader: number };
}

const MAGIC = 0x4a_4b_53_02;
const FIRST_MAGIC = 0x4a_4b_53_01;
const FIRST_VERSION = 1;
const HAS_CHECKSUM = 0x80;
const MARK = 0xc2;
const CHECKED_BYTES = RECORD_HEADER_BYTES - 4;
const STREAMS: readonly (OutputStream | undefined)[] = [undefined, "stdout", "stderr"];
const NAME = /^(\d{16})\.seg$/u;
const TWO_TO_32 = 0x1_0000_0000;

export function segmentName(firstOffset: number): string {
  return `${firstOffset.toString().padStart(16, "0")}.seg`;
}

/** The first offset in a file name; undefined if it is not a segment's name. */
export function offsetInName(name: string): number | undefined {
  const digits = NAME.exec(name)?.[1];
  const offset = Number(digits);
  return digits !== undefined && Number.isSafeInteger(offset) ? offset : undefined;
}

export function encodeSegmentHeader(target: Buffer, header: SegmentHeader): void {
  target.writeUInt32LE(MAGIC, 0);
  writeInteger(target, header.firstOffset, 8);
  writeInteger(target, header.firstSeq, 16);
  writeInteger(target, header.stdoutBytes, 24);
  writeInteger(target, header.stderrBytes, 32);
  writeInteger(target, header.skippedBytes, 40);
  writeInteger(target, header.headBytes, 48);
  target.writeUInt32LE(crc32(target.subarray(8, SEGMENT_HEADER_BYTES)), 4);
}

/** Undefined if this is not the header of the segment with that first offset. */
export function decodeSegmentHeader(
  source: Buffer,
  firstOffset: number,
): SegmentHeader | undefined {
  if (!hasSoundBeginning(source)) return undefined;
  const header: SegmentHeader = {
    firstOffset: readInteger(source, 8),
    firstSeq: readInteger(source, 16),
    stdoutBytes: readInteger(source, 24),
    stderrBytes: readInteger(source, 32),
    skippedBytes: readInteger(source, 40),
    headBytes: readInteger(source, 48),
  };
  const writtenBytes = header.stdoutBytes + header.stderrBytes;
  const isTrue =
    header.firstOffset === firstOffset &&
    writtenBytes + header.skippedBytes === firstOffset &&
    header.headBytes <= writtenBytes &&
    Number.isSafeInteger(header.firstSeq);
  return isTrue ? header : undefined;
}

function hasSoundBeginning(source: Buffer): boolean {
  const [magic, second] = [source.readUInt32LE(0), source.readUInt32LE(4)];
  if (magic === FIRST_MAGIC) return second === FIRST_VERSION;
  return magic === MAGIC && second === crc32(source.subarray(8, SEGMENT_HEADER_BYTES));
}

export function encodeRecordHeader(
  target: Buffer,
  at: number,
  record: RecordHeader,
  bytes: Uint8Array,
): void {
  target[at] = HAS_CHECKSUM | STREAMS.indexOf(record.stream);
  target[at + 1] = MARK;
  target.writeUIntLE(record.seq, at + 2, 6);
  target.writeUInt32LE(record.length, at + 8);
  target.writeDoubleLE(record.timestampMs, at + 12);
  const ofHeader = crc32(target.subarray(at, at + CHECKED_BYTES));
  target.writeUInt32LE(crc32(bytes, ofHeader), at + CHECKED_BYTES);
}

/** Undefined if this is not the header of the record with that sequence number. */
export function decodeRecordHeader(
  source: Buffer,
  at: number,
  seq: number,
): FoundRecord | undefined {
  const record =
    ((source[at] ?? 0) & HAS_CHECKSUM) === 0
      ? fieldsOfFirstVersion(source, at)
      : fieldsWithChecksum(source, at);
  const isTrue =
    record.length > 0 &&
    record.length <= MAX_RECORD_BYTES &&
    record.seq === seq &&
    Number.isFinite(record.timestampMs);
  const { stream } = record;
  return stream !== undefined && isTrue ? { ...record, stream } : undefined;
}

/** Undefined if no record with a checksum can begin here. Its bytes must still be checked. */
export function decodeAnyRecordHeader(source: Buffer, at: number): FoundRecord | undefined {
  if (source[at + 1] !== MARK || ((source[at] ?? 0) & HAS_CHECKSUM) === 0) return undefined;
  return decodeRecordHeader(source, at, source.readUIntLE(at + 2, 6));
}

/** Whether these bytes match the checksum. */
export function isGenuine({ checksum }: FoundRecord, bytes: Uint8Array): boolean {
  return checksum === undefined || crc32(bytes, checksum.ofHeader) === checksum.expected;
}

type Fields = Omit<FoundRecord, "stream"> & { readonly stream: OutputStream | undefined };

function fieldsWithChecksum(source: Buffer, at: number): Fields {
  return {
    stream: source[at + 1] === MARK ? STREAMS[(source[at] ?? 0) - HAS_CHECKSUM] : undefined,
    seq: source.readUIntLE(at + 2, 6),
    length: source.readUInt32LE(at + 8),
    timestampMs: source.readDoubleLE(at + 12),
    checksum: {
      expected: source.readUInt32LE(at + CHECKED_BYTES),
      ofHeader: crc32(source.subarray(at, at + CHECKED_BYTES)),
    },
  };
}

function fieldsOfFirstVersion(source: Buffer, at: number): Fields {
  return {
    stream: STREAMS[source.readUInt32LE(at)],
    length: source.readUInt32LE(at + 4),
    seq: readInteger(source, at + 8),
    timestampMs: source.readDoubleLE(at + 16),
  };
}

function writeInteger(target: Buffer, value: number, at: number): void {
  target.writeUInt32LE(value % TWO_TO_32, at);
  target.writeUInt32LE(Math.floor(value / TWO_TO_32), at + 4);
}

function readInteger(source: Buffer, at: number): number {
  return source.readUInt32LE(at) + source.readUInt32LE(at + 4) * TWO_TO_32;
}
