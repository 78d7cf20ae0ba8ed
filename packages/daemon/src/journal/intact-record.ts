/** Finds where a damaged segment can be read again. */
import type { RecordPosition } from "./record-position.ts";
import { decodeAnyRecordHeader, isGenuine, RECORD_HEADER_BYTES } from "./segment-format.ts";
import type { FoundRecord } from "./segment-format.ts";
import type { SegmentReader } from "./segment-reader.ts";

const BLOCK_BYTES = 256 * 1024;
/** Output may look like many long records, each of which would be read. */
const MAX_CHECKED_BYTES = 64 * 1024 * 1024;

/**
 * The first intact record behind a damaged one. Between them are as many records as sequence numbers,
 * with headers of known length, and the rest is lost output. What looks like a record in lost output
 * is a part of that output, so readers get no bytes that the command did not print.
 */
export async function findIntactRecord(
  segment: SegmentReader,
  damaged: RecordPosition,
  limit: number,
): Promise<RecordPosition | undefined> {
  const block = Buffer.allocUnsafe(Math.min(BLOCK_BYTES, Math.max(0, limit - damaged.position)));
  let checkedBytes = 0;
  let start = damaged.position + RECORD_HEADER_BYTES + 1;
  while (limit - start > RECORD_HEADER_BYTES) {
    const length = await segment.readAt(block.subarray(0, limit - start), start);
    for (let at = 0; at + RECORD_HEADER_BYTES <= length; at += 1) {
      const record = decodeAnyRecordHeader(block, at);
      if (record === undefined) continue;
      const found = placeOf(record, start + at, damaged);
      const bytesAt = start + at + RECORD_HEADER_BYTES;
      if (found === undefined || record.length > limit - bytesAt) continue;
      checkedBytes += record.length;
      if (checkedBytes > MAX_CHECKED_BYTES) return undefined;
      const bytes = Buffer.allocUnsafe(record.length);
      const isWhole = (await segment.readAt(bytes, bytesAt)) === record.length;
      if (isWhole && isGenuine(record, bytes)) return found;
    }
    if (length <= RECORD_HEADER_BYTES) return undefined;
    start += length - RECORD_HEADER_BYTES;
  }
  return undefined;
}

/** Undefined if the lost records do not fit into the space between. */
function placeOf(
  { seq }: FoundRecord,
  position: number,
  damaged: RecordPosition,
): RecordPosition | undefined {
  const lostRecords = seq - damaged.seq;
  const lostBytes = position - damaged.position - lostRecords * RECORD_HEADER_BYTES;
  if (lostRecords < 1 || lostBytes < lostRecords) return undefined;
  return { position, offset: damaged.offset + lostBytes, seq };
}
