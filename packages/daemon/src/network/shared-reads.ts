/** Reads the sockets of all connections into one buffer, and passes the bytes on in reusable blocks. */
import type { OnReadOpts, Socket } from "node:net";
import type { Duplex } from "node:stream";
import { copyToBlock, LARGEST_BLOCK_BYTES, takeBlock } from "./blocks.ts";
import type { Block } from "./blocks.ts";
import type { BeforeMoving } from "./splice.ts";

/** Connections that read into separate blocks; all others share one buffer and copy. */
const MAX_OWN_BLOCKS = 32;

/** One thread reads for all connections, so one buffer is enough. */
let readInto: Buffer | undefined;
let ownBlocks = 0;

type Take = (block: Block) => boolean;

/** Bytes wait in the kernel until `carry` is called. */
export class SharedReads {
  #take: Take = () => false;
  /** The target of the next read, for a connection that fills whole reads. */
  #own: Block | undefined;
  #fillsReads = false;

  /** For `net.connect`. */
  get options(): OnReadOpts {
    return {
      buffer: () => this.#nextMemory(),
      callback: (count, memory) => {
        this.#fillsReads = count === memory.byteLength;
        return this.#take(this.#blockOf(memory, count));
      },
    };
  }

  /** Like `carry`, for the socket that was opened with these options. */
  carry(
    from: Socket,
    to: Duplex & { readonly letsGoOfMemory?: boolean },
    before: BeforeMoving,
    refused: (reason: string) => void,
  ): void {
    let isWaiting = false;
    let hasEnded = false;
    const resume = (): void => {
      if (!isWaiting && !to.writableNeedDrain && !from.destroyed) from.resume();
    };
    const write = ({ memory, release }: Block): boolean => {
      // SECURITY: the block goes to the next read, perhaps of another session, only for a stream that
      // reports truthfully when it has released written data, and not after a failure (threat: reaching another
      // tenant). Guarded by "the memory of a connection" in shared-reads.test.ts.
      if (to.letsGoOfMemory !== true) return to.write(memory);
      return to.write(memory, (error) => {
        if (!error) release();
      });
    };
    this.#take = (block) => {
      const turn = before(block.memory.byteLength);
      if (turn === undefined) return write(block);
      isWaiting = true;
      turn.then(
        () => {
          isWaiting = false;
          if (!to.writable) return;
          write(block);
          if (hasEnded) to.end();
          else resume();
        },
        (error: unknown) => refused(error instanceof Error ? error.message : String(error)),
      );
      return false;
    };
    to.on("drain", resume);
    from.on("end", () => {
      hasEnded = true;
      // The last chunk may still be waiting, and comes before the end.
      if (!isWaiting) to.end();
    });
    // The kernel may still be about to fill it, so it is not released.
    from.once("close", () => this.#forgetOwn());
    resume();
  }

  /** Called before the first read, and after each. */
  #nextMemory(): Buffer {
    if (this.#fillsReads && ownBlocks < MAX_OWN_BLOCKS) {
      ownBlocks += 1;
      this.#own = takeBlock(LARGEST_BLOCK_BYTES);
      return this.#own.memory;
    }
    readInto ??= Buffer.allocUnsafeSlow(LARGEST_BLOCK_BYTES);
    return readInto;
  }

  #blockOf(memory: Uint8Array, count: number): Block {
    const own = this.#forgetOwn();
    if (own?.memory === memory)
      return { memory: own.memory.subarray(0, count), release: own.release };
    return copyToBlock(memory.subarray(0, count));
  }

  #forgetOwn(): Block | undefined {
    const own = this.#own;
    this.#own = undefined;
    if (own !== undefined) ownBlocks -= 1;
    return own;
  }
}
