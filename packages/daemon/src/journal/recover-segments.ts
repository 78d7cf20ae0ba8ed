/** Determines where a writer must continue after the previous one was killed. */
import { rm } from "node:fs/promises";
import { join } from "node:path";
import type { Log } from "../ports/log.ts";
import { firstRecord, isScanEnd, readSegmentHeader, RecordScan } from "./record-scan.ts";
import { SEGMENT_HEADER_BYTES, segmentName } from "./segment-format.ts";
import type { SegmentHeader } from "./segment-format.ts";
import { listSegments } from "./segment-listing.ts";
import { SegmentReader } from "./segment-reader.ts";

export interface KnownSegment {
  readonly first: number;
  /** Bytes of output written before it, including dropped ones. */
  readonly writtenBefore: number;
  /** Size of the valid part of the file. */
  readonly bytes: number;
}

/** The totals before a position in the output. */
export type OutputCounts = Omit<SegmentHeader, "headBytes">;

export interface RecoveredOutput {
  readonly segments: readonly KnownSegment[];
  /** The totals at the end. */
  readonly counts: OutputCounts;
  readonly headBytes: number;
}

interface OpenedSegment {
  readonly first: number;
  readonly header: SegmentHeader;
  readonly bytes: number;
}

const SCAN_BYTES = 256 * 1024;

/**
 * Undefined if there are no segments. Reads the headers of all segments and the records of the last one,
 * where lost records between intact ones count as skipped.
 */
export async function recoverSegments(
  directory: string,
  log: Log | undefined,
): Promise<RecoveredOutput | undefined> {
  const opened: OpenedSegment[] = [];
  for (const first of await listSegments(directory)) {
    const segment = await readHeader(directory, first);
    if ("header" in segment) {
      opened.push(segment);
      continue;
    }
    const path = join(directory, segmentName(first));
    if (segment.bytes >= SEGMENT_HEADER_BYTES) {
      log?.warn({ path }, "removed an output file with a damaged header");
    }
    await rm(path, { force: true });
  }
  const last = opened.pop();
  if (last === undefined) return undefined;
  const { goodBytes, ...counts } = await scanToEnd(directory, last, log);
  return {
    segments: [...opened.map(known), { ...known(last), bytes: goodBytes }],
    counts,
    headBytes: last.header.headBytes,
  };
}

function known({ first, header, bytes }: OpenedSegment): KnownSegment {
  return { first, writtenBefore: header.stdoutBytes + header.stderrBytes, bytes };
}

async function readHeader(
  directory: string,
  first: number,
): Promise<OpenedSegment | { readonly bytes: number }> {
  const segment = new SegmentReader(join(directory, segmentName(first)));
  try {
    const bytes = await segment.size();
    const header = await readSegmentHeader(segment, first);
    return header === undefined ? { bytes } : { first, header, bytes };
  } finally {
    segment.close();
  }
}

async function scanToEnd(
  directory: string,
  { first, header, bytes }: OpenedSegment,
  log: Log | undefined,
): Promise<OutputCounts & { readonly goodBytes: number }> {
  const path = join(directory, segmentName(first));
  const segment = new SegmentReader(path);
  try {
    const scan = new RecordScan(segment, bytes, firstRecord(header));
    const counts = { stdout: header.stdoutBytes, stderr: header.stderrBytes };
    let lostBytes = 0;
    let found = scan.peek();
    for (; found !== "end"; found = scan.peek()) {
      if (found === "unread") {
        await scan.load(SCAN_BYTES);
        continue;
      }
      const isIntact = isScanEnd(found) ? false : await scan.check(found, SCAN_BYTES);
      const next = isIntact === false ? await scan.findIntact() : undefined;
      if (next !== undefined) {
        log?.warn({ path, position: scan.next.position }, "an output file has damaged records");
        lostBytes += next.offset - scan.next.offset;
        scan.continueAt(next);
      } else if (isScanEnd(found) || isIntact === undefined) {
        break;
      } else {
        counts[found.stream] += found.length;
        scan.pass(found);
      }
    }
    const { position, offset, seq } = scan.next;
    if (found === "corrupt") {
      log?.warn({ path, position }, "truncated damaged records of an output file");
    }
    return {
      firstOffset: offset,
      firstSeq: seq,
      stdoutBytes: counts.stdout,
      stderrBytes: counts.stderr,
      skippedBytes: header.skippedBytes + lostBytes,
      goodBytes: position,
    };
  } finally {
    segment.close();
  }
}
