/**
 * The store's time: what leases are counted in. It goes on with the monotonic clocks of daemons, which
 * no one sets; only while no daemon of the same boot was there is it carried on by the wall clock.
 */
import type { ClockReading } from "../ports/session-store.ts";

/** What a daemon last noted: its clocks, and the store's time at that moment. */
export interface ClockNote extends ClockReading {
  readonly storeMs: number;
}

/** The store's time when a daemon joins, given the notes of all earlier ones. */
export function storeTimeAtJoin(notes: readonly ClockNote[], now: ClockReading): number {
  const newest = notes.toSorted((a, b) => b.storeMs - a.storeMs)[0];
  if (newest === undefined) return 0;
  const [same] = notes
    .filter(({ bootId }) => bootId === now.bootId)
    .toSorted((a, b) => b.monotonicMs - a.monotonicMs);
  // A clock that was set back must not turn time back, and one boot's own clock knows better than any other.
  const passed =
    same === undefined
      ? newest.storeMs + Math.max(0, now.wallMs - newest.wallMs)
      : same.storeMs + Math.max(0, now.monotonicMs - same.monotonicMs);
  return Math.max(newest.storeMs, passed);
}
