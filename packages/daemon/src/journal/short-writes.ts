/** Says which chunks are written by a plain call, which takes a fraction of the time of a thread's. */
import { RECORD_HEADER_BYTES, SEGMENT_HEADER_BYTES } from "./segment-format.ts";

/** Longer chunks go through threads: the kernel makes wait who dirties many pages. */
export const SHORT_CHUNK_BYTES = 16 * 1024;
/**
 * A plain call that takes longer has waited for the disk, and not just for a processor; for a while
 * nobody waits for the disk in the event loop.
 */
const SLOW_MS = 25;
const AVOIDED_MS = 5000;

/** One for all writers to a disk. */
export class ShortWrites {
  /** For one chunk behind its headers; free again as soon as it is written. */
  readonly buffer: Buffer = Buffer.alloc(
    SEGMENT_HEADER_BYTES + RECORD_HEADER_BYTES + SHORT_CHUNK_BYTES,
  );
  readonly #nowMs: () => number;
  #avoidedUntilMs = -Infinity;

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  takes(bytes: number): boolean {
    return bytes <= SHORT_CHUNK_BYTES && this.#nowMs() >= this.#avoidedUntilMs;
  }

  write(work: () => void): void {
    const beganAtMs = this.#nowMs();
    try {
      work();
    } finally {
      const endedAtMs = this.#nowMs();
      if (endedAtMs - beganAtMs > SLOW_MS) this.#avoidedUntilMs = endedAtMs + AVOIDED_MS;
    }
  }
}
