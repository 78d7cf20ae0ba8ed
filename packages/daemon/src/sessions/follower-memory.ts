/** Memory into which one follower's pages are read, so that a flood of output is not a flood of garbage. */
import type { JournalPage } from "../ports/exec-journal.ts";

/** A page, and what the journal reads around it; what does not fit gets new memory. */
const BLOCK_BYTES = 192 * 1024;
/** Followers of little output, which are most, need none. */
const LARGE_PAGE_BYTES = 64 * 1024;

/**
 * SECURITY: it belongs to one follower and starts as zeros, so whatever a page shows by mistake is
 * older output of the same command (threat: reaching another tenant). Guarded by
 * follower-memory.test.ts.
 */
export class FollowerMemory {
  #block: Buffer | undefined;

  /** For the next page, which overwrites the one before. */
  get block(): Buffer | undefined {
    return this.#block;
  }

  /** Allocates the block once a page is large. */
  sawPage({ chunks }: JournalPage): void {
    if (this.#block !== undefined) return;
    const pageBytes = chunks.reduce((sum, { bytes }) => sum + bytes.byteLength, 0);
    if (pageBytes >= LARGE_PAGE_BYTES) this.#block = Buffer.alloc(BLOCK_BYTES);
  }
}
