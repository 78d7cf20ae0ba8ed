/**
 * How output lies on the disk. A command's output is a row of segments, files named by the offset
 * of their first byte. A segment is a header and then records, each a header and the bytes of one
 * chunk; numbers are little-endian.
 *
 * segment: magic u32, version u32, then as u64: first offset, first sequence number, bytes of stdout
 * and of stderr before it, lost bytes before it, bytes in the half that is kept for ever.
 * record: stream u8, three zero bytes, length u32, sequence number u64, time f64.
 */
import type { OutputStream } from "@sandkasten/protocol";

export const SEGMENT_HEADER_BYTES = 56;
export const RECORD_HEADER_BYTES = 24;
/** Longer chunks become several records, so that a length says at once whether it can be true. */
export const MAX_RECORD_BYTES = 16 * 1024 * 1024;

/** What a writer has to know to go on behind the segments before this one. */
export interface SegmentHeader {
  readonly firstOffset: number;
  readonly firstSeq: number;
  readonly stdoutBytes: number;
  readonly stderrBytes: number;
  /** Counted but never written. */
  readonly skippedBytes: number;
  /** Written to the segments that are kept for ever; 0 in those themselves. */
  readonly headBytes: number;
}

export interface RecordHeader {
  readonly stream: OutputStream;
  readonly length: number;
  readonly seq: number;
  readonly timestampMs: number;
}

const MAGIC = 0x4a_4b_53_01;
const VERSION = 1;
const STREAMS: readonly (OutputStream | undefined)[] = [undefined, "stdout", "stderr"];
const NAME = /^(\d{16})\.seg$/u;
const TWO_TO_32 = 0x1_0000_0000;

export function segmentName(firstOffset: number): string {
  return `${firstOffset.toString().padStart(16, "0")}.seg`;
}

/** The first offset that a file name says, if it is a segment's. */
export function offsetInName(name: string): number | undefined {
  const digits = NAME.exec(name)?.[1];
  const offset = Number(digits);
  return digits !== undefined && Number.isSafeInteger(offset) ? offset : undefined;
}

export function encodeSegmentHeader(target: Buffer, header: SegmentHeader): void {
  target.writeUInt32LE(MAGIC, 0);
  target.writeUInt32LE(VERSION, 4);
  writeInteger(target, header.firstOffset, 8);
  writeInteger(target, header.firstSeq, 16);
  writeInteger(target, header.stdoutBytes, 24);
  writeInteger(target, header.stderrBytes, 32);
  writeInteger(target, header.skippedBytes, 40);
  writeInteger(target, header.headBytes, 48);
}

/** Undefined when this is not the header of the segment with that first offset. */
export function decodeSegmentHeader(
  source: Buffer,
  firstOffset: number,
): SegmentHeader | undefined {
  if (source.readUInt32LE(0) !== MAGIC || source.readUInt32LE(4) !== VERSION) return undefined;
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

export function encodeRecordHeader(target: Buffer, at: number, record: RecordHeader): void {
  target.writeUInt32LE(STREAMS.indexOf(record.stream), at);
  target.writeUInt32LE(record.length, at + 4);
  writeInteger(target, record.seq, at + 8);
  target.writeDoubleLE(record.timestampMs, at + 16);
}

/** Undefined when this is not the header of the record with that sequence number. */
export function decodeRecordHeader(
  source: Buffer,
  at: number,
  seq: number,
): RecordHeader | undefined {
  const stream = STREAMS[source.readUInt32LE(at)];
  const length = source.readUInt32LE(at + 4);
  const timestampMs = source.readDoubleLE(at + 16);
  const isTrue =
    length > 0 &&
    length <= MAX_RECORD_BYTES &&
    readInteger(source, at + 8) === seq &&
    Number.isFinite(timestampMs);
  return stream !== undefined && isTrue ? { stream, length, seq, timestampMs } : undefined;
}

function writeInteger(target: Buffer, value: number, at: number): void {
  target.writeUInt32LE(value % TWO_TO_32, at);
  target.writeUInt32LE(Math.floor(value / TWO_TO_32), at + 4);
}

function readInteger(source: Buffer, at: number): number {
  return source.readUInt32LE(at) + source.readUInt32LE(at + 4) * TWO_TO_32;
}
