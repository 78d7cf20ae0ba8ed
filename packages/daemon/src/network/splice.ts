/** Carries bytes from one stream to another, at the pace of the slower. */
import type { Duplex } from "node:stream";

/** Asked before bytes move on; see `ConnectionLimiter.take`. */
export type BeforeMoving = (bytes: number) => Promise<void> | undefined;

/**
 * Moves bytes until `from` has ended, and then ends `to`. The caller handles
 * failures of either stream.
 */
export function carry(
  from: Duplex,
  to: Duplex,
  before: BeforeMoving,
  /** Bytes were refused, and why. Nothing more is read. */
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
    // The last chunk may still wait for its turn, and comes before the end.
    if (!isWaiting) to.end();
  });
  // A program that has said nothing and ended will not say so again.
  if (from.readableEnded) to.end();
}
