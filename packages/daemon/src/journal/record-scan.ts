/** Iterates over the records of a segment without trusting their contents. */
import {
  decodeRecordHeader,
  decodeSegmentHeader,
  isGenuine,
  RECORD_HEADER_BYTES,
  SEGMENT_HEADER_BYTES,
} from "./segment-format.ts";
import { findIntactRecord } from "./intact-record.ts";
import { PageMemory } from "./page-memory.ts";
import type { RecordPosition } from "./record-position.ts";
import type { FoundRecord, RecordHeader, SegmentHeader } from "./segment-format.ts";
import type { SegmentReader } from "./segment-reader.ts";

/** Why there is no record: end of file, a partial record, or invalid data. */
export type ScanEnd = "end" | "torn" | "corrupt";

export function isScanEnd(found: unknown): found is ScanEnd {
  return found === "end" || found === "torn" || found === "corrupt";
}

/**
 * SECURITY: a length is trusted only up to the end of the file, so damaged content can neither
 * crash the daemon nor use more memory than the file's size (threat: oversized messages). Guarded
 * by damaged-journal.test.ts.
 */
export class RecordScan {
  readonly #segment: SegmentReader;
  readonly #memory: PageMemory;
  #limit: number;
  #block: Buffer = Buffer.alloc(0);
  #blockPosition = 0;
  #next: RecordPosition;

  /** Scans from a record's beginning up to a position in the file. */
  constructor(
    segment: SegmentReader,
    limit: number,
    from: RecordPosition,
    memory = new PageMemory(),
  ) {
    this.#segment = segment;
    this.#memory = memory;
    this.#limit = limit;
    this.#next = from;
  }

  /** Starts with the first record. Undefined if the file lacks the header of that segment. */
  static async fromStart(
    segment: SegmentReader,
    first: number,
    limit: number,
    readAheadBytes: number,
    memory: PageMemory,
  ): Promise<RecordScan | undefined> {
    const scan = new RecordScan(segment, limit, { position: 0, offset: first, seq: 0 }, memory);
    await scan.#load(0, SEGMENT_HEADER_BYTES, readAheadBytes);
    if (scan.#block.length < SEGMENT_HEADER_BYTES) return undefined;
    const header = decodeSegmentHeader(scan.#block, first);
    if (header === undefined) return undefined;
    scan.#next = firstRecord(header);
    return scan;
  }

  get next(): RecordPosition {
    return this.#next;
  }

  /** The next record's header; `unread` if it must be loaded first. */
  peek(): FoundRecord | ScanEnd | "unread" {
    const { position, seq } = this.#next;
    const left = this.#limit - position;
    if (left <= 0) return "end";
    if (left < RECORD_HEADER_BYTES) return "torn";
    if (!this.#holds(position, RECORD_HEADER_BYTES)) return "unread";
    const header = decodeRecordHeader(this.#block, position - this.#blockPosition, seq);
    if (header === undefined) return "corrupt";
    return header.length > left - RECORD_HEADER_BYTES ? "torn" : header;
  }

  /** Reads ahead from the next record, at least its header. */
  async load(readAheadBytes: number): Promise<void> {
    await this.#load(this.#next.position, RECORD_HEADER_BYTES, readAheadBytes);
  }

  /** Bytes of the next record; undefined if the file has become shorter. */
  async bytes(
    from: number,
    length: number,
    readAheadBytes: number,
  ): Promise<Uint8Array | undefined> {
    const position = this.#next.position + RECORD_HEADER_BYTES + from;
    if (!this.#holds(position, length)) {
      await this.#load(position, length, readAheadBytes);
      if (!this.#holds(position, length)) return undefined;
    }
    const start = position - this.#blockPosition;
    return this.#block.subarray(start, start + length);
  }

  /** Whether the next record is intact; undefined if the file has become shorter. */
  async check(record: FoundRecord, readAheadBytes: number): Promise<boolean | undefined> {
    if (this.#next.isChecked === true) return true;
    const bytes = await this.bytes(0, record.length, readAheadBytes);
    if (bytes === undefined) return undefined;
    if (!isGenuine(record, bytes)) return false;
    this.#next = { ...this.#next, isChecked: true };
    return true;
  }

  /** The first intact record behind the next one, which is damaged. */
  async findIntact(): Promise<RecordPosition | undefined> {
    return await findIntactRecord(this.#segment, this.#next, this.#limit);
  }

  /** Continues at a record that `findIntact` found. */
  continueAt(found: RecordPosition): void {
    this.#next = found;
  }

  pass(record: RecordHeader): void {
    const { position, offset, seq } = this.#next;
    this.#next = {
      position: position + RECORD_HEADER_BYTES + record.length,
      offset: offset + record.length,
      seq: seq + 1,
    };
  }

  #holds(position: number, bytes: number): boolean {
    return (
      position >= this.#blockPosition &&
      position + bytes <= this.#blockPosition + this.#block.length
    );
  }

  async #load(position: number, bytes: number, readAheadBytes: number): Promise<void> {
    const size = Math.min(this.#limit - position, Math.max(bytes, readAheadBytes));
    const block = this.#memory.take(size);
    const length = await this.#segment.readAt(block, position);
    if (length < size) this.#limit = position + length;
    this.#block = block.subarray(0, length);
    this.#blockPosition = position;
  }
}

/** Undefined if the file has no header, or that of a different segment. */
export async function readSegmentHeader(
  segment: SegmentReader,
  first: number,
): Promise<SegmentHeader | undefined> {
  const block = Buffer.allocUnsafe(SEGMENT_HEADER_BYTES);
  const length = await segment.readAt(block, 0);
  return length === SEGMENT_HEADER_BYTES ? decodeSegmentHeader(block, first) : undefined;
}

/** Where the first record of a segment is. */
export function firstRecord(header: SegmentHeader): RecordPosition {
  return { position: SEGMENT_HEADER_BYTES, offset: header.firstOffset, seq: header.firstSeq };
}
