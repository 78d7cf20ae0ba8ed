/** Blocks of memory that are used again, where new ones for each use would be much garbage. */

/** Free blocks beyond this are left to the garbage collector. */
const MAX_FREE_BLOCKS = 4;

/**
 * SECURITY: a block passes from one tenant's output to another's. Give it back only when nothing
 * reads it any more; after a failure, drop it instead (threat: reaching another tenant). Guarded by
 * memory-pool.test.ts and exec-streams.test.ts.
 */
export class MemoryPool {
  readonly blockBytes: number;
  readonly #free: Buffer[] = [];

  constructor(blockBytes: number) {
    this.blockBytes = blockBytes;
  }

  /** Its contents are undefined. */
  take(): Buffer {
    return this.#free.pop() ?? Buffer.allocUnsafeSlow(this.blockBytes);
  }

  giveBack(block: Buffer): void {
    if (this.#free.length < MAX_FREE_BLOCKS) this.#free.push(block);
  }
}
