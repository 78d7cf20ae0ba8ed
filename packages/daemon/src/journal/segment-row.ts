/** The sequence of segments for one command's output: its beginning and its end are kept. */
import * as fs from "node:fs";
import { mkdir, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { OutputStream } from "@sandkasten/protocol";
import type { Log } from "../ports/log.ts";
import { isMissing, isTaken } from "./journal-failure.ts";
import type { SegmentView } from "./output-view.ts";
import { recoverSegments } from "./recover-segments.ts";
import type { OutputCounts } from "./recover-segments.ts";
import { SegmentFile } from "./segment-file.ts";
import type { ShortWrites } from "./short-writes.ts";
import {
  encodeRecordHeader,
  encodeSegmentHeader,
  RECORD_HEADER_BYTES,
  SEGMENT_HEADER_BYTES,
  segmentName,
} from "./segment-format.ts";

/** The maximum number of segments; the first half of them is never dropped. */
export const MAX_SEGMENTS = 16;
const HEAD_SEGMENTS = MAX_SEGMENTS / 2;

/** The disk space of a file or directory beyond its bytes. */
export const BLOCK_BYTES = 4096;

const HEADERS_BYTES = SEGMENT_HEADER_BYTES + RECORD_HEADER_BYTES;

export interface SegmentRowOptions {
  /** Created with the first segment. */
  readonly directory: string;
  readonly segmentBytes: number;
  readonly shortWrites: ShortWrites;
  /** Called with every change of the disk space used. */
  readonly onDiskBytes: (change: number) => void;
  readonly log: Log | undefined;
}

/** A chunk to append after the output counted so far. */
export interface NewRecord {
  readonly stream: OutputStream;
  readonly bytes: Uint8Array;
  readonly timestampMs: number;
}

interface Segment {
  readonly first: number;
  readonly writtenBefore: number;
  bytes: number;
}

export class SegmentRow {
  readonly #options: SegmentRowOptions;
  #segments: Segment[] = [];
  #file: SegmentFile | undefined;
  #fileFirst = 0;
  #longHeaders: Buffer | undefined;
  /** Bytes written to the first half, once it is complete. */
  #headBytes = 0;
  #deletedBytes = 0;

  constructor(options: SegmentRowOptions) {
    this.#options = options;
  }

  /** Bytes that were dropped to make room. */
  get deletedBytes(): number {
    return this.#deletedBytes;
  }

  /** The disk space of the segments. */
  get diskBytes(): number {
    return this.#segments.reduce((sum, { bytes }) => sum + bytes + BLOCK_BYTES, 0);
  }

  /** The maximum size of a record for the open segment, or for a new one. */
  get room(): number {
    const used = this.#file === undefined ? SEGMENT_HEADER_BYTES : this.#file.bytes;
    return this.#options.segmentBytes - used - RECORD_HEADER_BYTES;
  }

  /** The offset up to which bytes must be dropped before the next segment can begin; undefined if none. */
  get dropUpTo(): number | undefined {
    const oldest = this.#segments[HEAD_SEGMENTS];
    const next = this.#segments[HEAD_SEGMENTS + 1];
    if (this.#file !== undefined || this.#keptSegments() < MAX_SEGMENTS) return undefined;
    if (oldest === undefined || next === undefined) return undefined;
    return oldest.first + next.writtenBefore - oldest.writtenBefore;
  }

  /** Continues with the segments on the disk; undefined if there are none. */
  async recover(): Promise<OutputCounts | undefined> {
    const { directory, log } = this.#options;
    const found = await recoverSegments(directory, log);
    const last = found?.segments.at(-1);
    if (found === undefined || last === undefined) return undefined;
    this.#file = SegmentFile.reopen(this.#path(last.first), last.bytes);
    this.#fileFirst = last.first;
    this.#segments = found.segments.map((segment) => ({ ...segment }));
    this.#headBytes = found.headBytes;
    const behindHead = this.#segments[HEAD_SEGMENTS];
    if (behindHead !== undefined) {
      this.#deletedBytes = Math.max(0, behindHead.writtenBefore - found.headBytes);
    }
    return found.counts;
  }

  /** Writes a short chunk before it returns. */
  appendNow(counts: OutputCounts, record: NewRecord): void {
    const { buffer } = this.#options.shortWrites;
    const isNew = this.#file === undefined;
    const length = this.#encodeHeaders(buffer, counts, record, isNew);
    buffer.set(record.bytes, length);
    this.#writeNow(buffer.subarray(0, length + record.bytes.length), counts);
  }

  async append(counts: OutputCounts, record: NewRecord): Promise<void> {
    const isNew = this.#file === undefined;
    const target = (this.#longHeaders ??= Buffer.alloc(HEADERS_BYTES));
    const length = this.#encodeHeaders(target, counts, record, isNew);
    const file = this.#file ?? (await this.#create(counts));
    try {
      await file.append([target.subarray(0, length), record.bytes]);
    } catch (error) {
      this.#discardIfNew(file);
      throw error;
    }
    this.#noteGrowth(file, counts, isNew);
  }

  /** Begins a segment, so the counts are on the disk before anything that follows. */
  begin(counts: OutputCounts): void {
    const { buffer } = this.#options.shortWrites;
    this.#encodeSegmentHeader(buffer, counts);
    this.#writeNow(buffer.subarray(0, SEGMENT_HEADER_BYTES), counts);
  }

  /** Closes the open segment. */
  finish(): void {
    const file = this.#file;
    this.#file = undefined;
    file?.close();
  }

  /** Deletes the oldest segment after the first half. */
  async drop(): Promise<void> {
    const [oldest] = this.#segments.splice(HEAD_SEGMENTS, 1);
    const next = this.#segments[HEAD_SEGMENTS];
    if (oldest === undefined || next === undefined) return;
    try {
      await rm(this.#path(oldest.first), { force: true });
    } catch (error) {
      this.#segments.splice(HEAD_SEGMENTS, 0, oldest);
      throw error;
    }
    this.#deletedBytes += next.writtenBefore - oldest.writtenBefore;
    this.#options.onDiskBytes(-oldest.bytes - BLOCK_BYTES);
  }

  /** The segments, limited to what is completely written. */
  view(): readonly SegmentView[] {
    return this.#segments.map(({ first, bytes }) => ({ first, bytes }));
  }

  /** Reads from the open segment if it is this one. */
  readNow(first: number, target: Buffer, position: number): number | undefined {
    return this.#fileFirst === first ? this.#file?.readNow(target, position) : undefined;
  }

  #writeNow(bytes: Uint8Array, counts: OutputCounts): void {
    const isNew = this.#file === undefined;
    this.#options.shortWrites.write(() => {
      const file = this.#file ?? this.#createNow(counts);
      try {
        file.appendNow(bytes);
      } catch (error) {
        this.#discardIfNew(file);
        throw error;
      }
      this.#noteGrowth(file, counts, isNew);
    });
  }

  #createNow({ firstOffset }: OutputCounts): SegmentFile {
    if (this.#segments.length === 0) makeDirectoryNow(this.#options.directory);
    this.#file = SegmentFile.createNow(this.#path(firstOffset));
    this.#fileFirst = firstOffset;
    return this.#file;
  }

  async #create({ firstOffset }: OutputCounts): Promise<SegmentFile> {
    if (this.#segments.length === 0) {
      await mkdir(this.#options.directory, { recursive: true, mode: 0o700 });
    }
    this.#file = await SegmentFile.create(this.#path(firstOffset));
    this.#fileFirst = firstOffset;
    return this.#file;
  }

  #encodeHeaders(
    target: Buffer,
    counts: OutputCounts,
    { stream, bytes, timestampMs }: NewRecord,
    isNew: boolean,
  ): number {
    const at = isNew ? SEGMENT_HEADER_BYTES : 0;
    if (isNew) this.#encodeSegmentHeader(target, counts);
    const record = { stream, length: bytes.length, seq: counts.firstSeq, timestampMs };
    encodeRecordHeader(target, at, record, bytes);
    return at + RECORD_HEADER_BYTES;
  }

  #encodeSegmentHeader(target: Buffer, counts: OutputCounts): void {
    encodeSegmentHeader(target, { ...counts, headBytes: this.#headBytesBehind(counts) });
  }

  #headBytesBehind({ stdoutBytes, stderrBytes }: OutputCounts): number {
    const before = this.#keptSegments();
    if (before < HEAD_SEGMENTS) return 0;
    return before === HEAD_SEGMENTS ? stdoutBytes + stderrBytes : this.#headBytes;
  }

  /** Segments that stay when a new one begins: an empty one is replaced by it. */
  #keptSegments(): number {
    const last = this.#segments.at(-1);
    return this.#segments.length - (last?.bytes === SEGMENT_HEADER_BYTES ? 1 : 0);
  }

  #noteGrowth(file: SegmentFile, counts: OutputCounts, isNew: boolean): void {
    const last = this.#segments.at(-1);
    if (!isNew && last !== undefined) {
      this.#options.onDiskBytes(file.bytes - last.bytes);
      last.bytes = file.bytes;
      return;
    }
    this.#headBytes = this.#headBytesBehind(counts);
    if (last?.bytes === SEGMENT_HEADER_BYTES) this.#removeEmpty(last);
    const writtenBefore = counts.stdoutBytes + counts.stderrBytes;
    this.#segments.push({ first: counts.firstOffset, writtenBefore, bytes: file.bytes });
    this.#options.onDiskBytes(file.bytes + BLOCK_BYTES);
  }

  #removeEmpty(last: Segment): void {
    const path = this.#path(last.first);
    try {
      fs.rmSync(path, { force: true });
    } catch (error) {
      this.#options.log?.warn({ err: error, path }, "cannot remove an empty output file");
      return;
    }
    this.#segments.pop();
    this.#options.onDiskBytes(-last.bytes - BLOCK_BYTES);
  }

  /** A segment that failed at its first bytes leaves nothing behind. */
  #discardIfNew(file: SegmentFile): void {
    if (file.bytes > 0) return;
    this.#file = undefined;
    file.discard();
  }

  #path(first: number): string {
    return join(this.#options.directory, segmentName(first));
  }
}

/** SECURITY: only the daemon can read output (0700, files 0600). Guarded by file-exec-journal.test.ts. */
function makeDirectoryNow(directory: string): void {
  try {
    fs.mkdirSync(directory, 0o700);
  } catch (error) {
    if (isTaken(error)) return;
    if (!isMissing(error)) throw error;
    fs.mkdirSync(dirname(directory), { recursive: true, mode: 0o700 });
    fs.mkdirSync(directory, 0o700);
  }
}
