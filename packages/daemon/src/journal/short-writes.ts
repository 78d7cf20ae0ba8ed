/** Decides which chunks are written synchronously, which is much faster than using a thread. */
import { RECORD_HEADER_BYTES, SEGMENT_HEADER_BYTES } from "./segment-format.ts";

/** Longer chunks go through threads: the kernel blocks writers that dirty many pages. */
export const SHORT_CHUNK_BYTES = 16 * 1024;
/**
 * A synchronous write that takes longer has waited for the disk, not just for a processor; for a
 * while, no write then blocks the event loop.
 */
const SLOW_MS = 25;
const AVOIDED_MS = 5000;

/** Shared by all writers to a disk. */
export class ShortWrites {
  /** Holds one chunk after its headers; free again once it is written. */
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
