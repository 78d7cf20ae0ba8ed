/** Reads the sockets of all connections into one memory, and passes on copies of the size of what came. */
import type { OnReadOpts, Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { BeforeMoving } from "./splice.ts";

const READ_BYTES = 262_144;

/** One thread reads for all connections, so one memory to read into is enough. */
let readInto: Buffer | undefined;

type Take = (bytes: Buffer) => boolean;

/** What is read waits in the kernel until somebody carries it. */
export class SharedReads {
  #take: Take = () => false;

  /** For `net.connect`. */
  get options(): OnReadOpts {
    readInto ??= Buffer.allocUnsafeSlow(READ_BYTES);
    return {
      buffer: readInto,
      callback: (count, memory) => this.#take(Buffer.from(memory.buffer, memory.byteOffset, count)),
    };
  }

  /** As `carry`, for the socket that was opened with these options. */
  carry(from: Socket, to: Duplex, before: BeforeMoving, refused: (reason: string) => void): void {
    let isWaiting = false;
    let hasEnded = false;
    const resume = (): void => {
      if (!isWaiting && !to.writableNeedDrain && !from.destroyed) from.resume();
    };
    this.#take = (memory) => {
      // SECURITY: the memory belongs to the next read, perhaps of another session. The copy is never used
      // again, because a stream may keep what it said was written. Guarded by "the memory of a connection"
      // in shared-reads.test.ts.
      const bytes = Buffer.from(memory);
      const turn = before(bytes.byteLength);
      if (turn === undefined) return to.write(bytes);
      isWaiting = true;
      turn.then(
        () => {
          isWaiting = false;
          if (!to.writable) return;
          to.write(bytes);
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
      if (!isWaiting) to.end();
    });
    from.resume();
  }
}
