/** Reads pages of a command's output from its segments. */
import { join } from "node:path";
import { PageMemory } from "./page-memory.ts";
import type { JournalChunk, JournalPage } from "../ports/exec-journal.ts";
import type { Log } from "../ports/log.ts";
import type { OutputView, SegmentView } from "./output-view.ts";
import { RecentMap } from "./recent-map.ts";
import { isScanEnd, RecordScan } from "./record-scan.ts";
import type { RecordPosition } from "./record-position.ts";
import type { ScanEnd } from "./record-scan.ts";
import { SEGMENT_HEADER_BYTES, segmentName } from "./segment-format.ts";
import type { RecordHeader } from "./segment-format.ts";
import { SegmentReader } from "./segment-reader.ts";

/** Limits the chunks of a page, so one-byte chunks do not exhaust memory. */
const MAX_PAGE_CHUNKS = 8192;

/** How many readers' positions are cached, and how many damaged files are remembered. */
const REMEMBERED_PLACES = 1024;
const REMEMBERED_DAMAGES = 256;

/** Bytes read at once while searching for a position, and the maximum for a page. */
const SEEK_BYTES = 256 * 1024;
const MAX_READ_BYTES = 4 * 1024 * 1024;
/** Room for the headers of a page's records. */
const HEADER_ALLOWANCE_BYTES = 4096;
/** Up to this size, reads through the writer's file are synchronous: the data was written recently. */
const LIVE_READ_BYTES = 256 * 1024;

/** The segment, and the position in it, of the record that contains an offset. */
interface Place {
  readonly first: number;
  readonly record: RecordPosition;
}

export interface PageRequest {
  readonly offset: number;
  readonly maxBytes: number;
  /** Where the page's bytes may be placed. */
  readonly memory?: Buffer | undefined;
}

/** A page under construction: lost bytes, then contiguous chunks. */
class PageDraft {
  readonly chunks: JournalChunk[] = [];
  cursor: number;
  skippedBytes = 0;
  bytesLeft: number;
  readonly memory: PageMemory;
  readonly #isForFollower: boolean;

  constructor({ offset, maxBytes, memory }: PageRequest) {
    this.cursor = offset;
    this.bytesLeft = maxBytes;
    this.memory = new PageMemory(memory);
    this.#isForFollower = memory !== undefined;
  }

  get isFull(): boolean {
    return this.bytesLeft === 0 || this.chunks.length === MAX_PAGE_CHUNKS;
  }

  /**
   * Whether the page takes a part of a record. All of it must be read to check it, so a follower gets
   * it whole with its next page.
   */
  takes(bytes: number): boolean {
    return bytes <= this.bytesLeft || !this.#isForFollower || this.chunks.length === 0;
  }

  add(record: RecordHeader, bytes: Uint8Array): void {
    const { stream, seq, timestampMs } = record;
    this.chunks.push({ stream, seq, offset: this.cursor, timestampMs, bytes });
    this.cursor += bytes.length;
    this.bytesLeft -= bytes.length;
  }

  /** Returns whether the page can continue there. */
  skipTo(offset: number): boolean {
    if (offset <= this.cursor) return true;
    if (this.chunks.length > 0) return false;
    this.skippedBytes += offset - this.cursor;
    this.cursor = offset;
    return true;
  }
}

export class PageReader {
  readonly #log: Log | undefined;
  /** Keyed by `<owner>/<offset>`: a page that begins where another ended needs no search. */
  readonly #places = new RecentMap<Place>(REMEMBERED_PLACES);
  readonly #damages = new RecentMap<true>(REMEMBERED_DAMAGES);

  constructor(log: Log | undefined) {
    this.#log = log;
  }

  /** `owner` identifies the output. Fails with ENOENT if a segment was dropped meanwhile. */
  async read(owner: string, view: OutputView, wanted: PageRequest): Promise<JournalPage> {
    const draft = new PageDraft(wanted);
    const start = view.segments.findLastIndex(({ first }) => first <= wanted.offset);
    for (const segment of view.segments.slice(Math.max(0, start))) {
      if (draft.isFull || !draft.skipTo(segment.first)) break;
      await this.#readSegment(owner, view, segment, draft);
    }
    // If no chunks reach this far, the bytes that the writer counted beyond are lost.
    if (view.endOffset !== undefined) draft.skipTo(view.endOffset);
    const { chunks, cursor: nextOffset, skippedBytes } = draft;
    return { chunks, nextOffset, skippedBytes };
  }

  /** Forgets the positions of all outputs whose names begin with this. */
  forget(owners: string): void {
    this.#places.forgetAllOf(owners);
  }

  async #readSegment(
    owner: string,
    view: OutputView,
    { first, bytes }: SegmentView,
    draft: PageDraft,
  ): Promise<void> {
    const path = join(view.directory, segmentName(first));
    const segment = new SegmentReader(path, (target, position) =>
      target.length <= LIVE_READ_BYTES ? view.readNow?.(first, target, position) : undefined,
    );
    // A truncated record at the very end may still be being written by an unknown process.
    const mayBeTorn = bytes === undefined && view.segments.at(-1)?.first === first;
    try {
      const limit = bytes ?? (await segment.size());
      const place = this.#places.get(`${owner}/${draft.cursor}`);
      const scan =
        place?.first === first
          ? new RecordScan(segment, limit, place.record, draft.memory)
          : await RecordScan.fromStart(
              segment,
              first,
              limit,
              readAheadBytes(draft, first),
              draft.memory,
            );
      if (scan === undefined) {
        if (!mayBeTorn || limit >= SEGMENT_HEADER_BYTES) this.#noteDamage(path, 0);
        return;
      }
      const end = await fillPage(draft, scan, (position) => this.#noteDamage(path, position));
      this.#places.set(`${owner}/${draft.cursor}`, { first, record: scan.next });
      if (end === "corrupt" || (end === "torn" && !mayBeTorn)) {
        this.#noteDamage(path, scan.next.position);
      }
    } finally {
      segment.close();
    }
  }

  #noteDamage(path: string, position: number): void {
    if (this.#damages.get(path) === true) return;
    this.#damages.set(path, true);
    this.#log?.warn({ path, position }, "an output file is damaged; skipping the damaged part");
  }
}

/**
 * Takes the records that belong to the page, and returns why the segment gave no more. A damaged
 * record becomes a gap: readers never get bytes that the command did not print.
 */
async function fillPage(
  draft: PageDraft,
  scan: RecordScan,
  noteDamage: (position: number) => void,
): Promise<ScanEnd> {
  while (!draft.isFull) {
    const record = scan.peek();
    if (record === "unread") {
      await scan.load(readAheadBytes(draft, scan.next.offset));
      continue;
    }
    if (record === "end") return record;
    if (isScanEnd(record)) {
      const next = await scan.findIntact();
      if (next === undefined) return record;
      noteDamage(scan.next.position);
      if (!draft.skipTo(next.offset)) break;
      scan.continueAt(next);
      continue;
    }
    const from = draft.cursor - scan.next.offset;
    if (from < record.length) {
      if (!draft.takes(record.length - from)) break;
      const isGenuine = await scan.check(record, readAheadBytes(draft, scan.next.offset));
      if (isGenuine === undefined) return "torn";
      if (!isGenuine) {
        noteDamage(scan.next.position);
        // Its length may be damaged as well.
        const next = await scan.findIntact();
        if (!draft.skipTo(next?.offset ?? scan.next.offset + record.length)) break;
        if (next === undefined) scan.pass(record);
        else scan.continueAt(next);
        continue;
      }
      const length = Math.min(record.length - from, draft.bytesLeft);
      const bytes = await scan.bytes(from, length, readAheadBytes(draft, scan.next.offset));
      if (bytes === undefined) return "torn";
      draft.add(record, bytes);
      if (from + length < record.length) break;
    }
    scan.pass(record);
  }
  return "end";
}

/** Everything the page still needs, unless its start is far away. */
function readAheadBytes(draft: PageDraft, offset: number): number {
  const distance = draft.cursor - offset;
  if (distance > SEEK_BYTES) return SEEK_BYTES;
  return Math.min(distance + draft.bytesLeft + HEADER_ALLOWANCE_BYTES, MAX_READ_BYTES);
}
