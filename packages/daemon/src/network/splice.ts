/** Transfers bytes from one stream to another, at the pace of the slower one. */
import type { Duplex } from "node:stream";

/** Called before bytes move; see `ConnectionLimiter.take`. */
export type BeforeMoving = (bytes: number) => Promise<void> | undefined;

/**
 * Transfers bytes until `from` has ended, and then ends `to`. The caller handles
 * failures of either stream.
 */
export function carry(
  from: Duplex,
  to: Duplex,
  before: BeforeMoving,
  /** Bytes were refused, with the reason. Nothing more is read. */
  refused: (reason: string) => void,
): void {
  let isWaiting = false;
  let hasEnded = false;
  const resume = (): void => {
    if (!isWaiting && !to.writableNeedDrain) from.resume();
  };
  from.on("data", (chunk: Buffer) => {
    const turn = before(chunk.byteLength);
    if (turn === undefined) {
      if (!to.write(chunk)) from.pause();
      return;
    }
    isWaiting = true;
    from.pause();
    turn.then(
      () => {
        isWaiting = false;
        if (!to.writable) return;
        to.write(chunk);
        if (hasEnded) to.end();
        else resume();
      },
      (error: unknown) => refused(error instanceof Error ? error.message : String(error)),
    );
  });
  to.on("drain", resume);
  from.on("end", () => {
    hasEnded = true;
    // The last chunk may still be waiting, and comes before the end.
    if (!isWaiting) to.end();
  });
  // A program that has sent nothing and ended will not report its end again.
  if (from.readableEnded) to.end();
}
