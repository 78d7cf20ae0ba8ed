/**
 * The store's time, in which leases are measured. It advances with the monotonic clocks of daemons,
 * which cannot be set; only while no daemon of the same boot was running does the wall clock carry
 * it on.
 */
import type { ClockReading } from "../ports/session-store.ts";

/** A daemon's last recorded clocks, and the store's time at that moment. */
export interface ClockNote extends ClockReading {
  readonly storeMs: number;
}

/** The store's time when a daemon joins, given the records of all earlier ones. */
export function storeTimeAtJoin(notes: readonly ClockNote[], now: ClockReading): number {
  const newest = notes.toSorted((a, b) => b.storeMs - a.storeMs)[0];
  if (newest === undefined) return 0;
  const [same] = notes
    .filter(({ bootId }) => bootId === now.bootId)
    .toSorted((a, b) => b.monotonicMs - a.monotonicMs);
  // A wall clock that was set back must not move time back, and the clock of the same boot is the
  // most accurate.
  const passed =
    same === undefined
      ? newest.storeMs + Math.max(0, now.wallMs - newest.wallMs)
      : same.storeMs + Math.max(0, now.monotonicMs - same.monotonicMs);
  return Math.max(newest.storeMs, passed);
}
