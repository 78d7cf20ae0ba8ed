/** Limits how often a runner may send requests before it has to wait. */

const PER_SECOND = 1_000;
const BURST = 2_000;
const MAX_PAUSE_MS = 250;

/**
 * SECURITY: code that resolves names in a loop would keep the daemon busy and delay every other
 * session (threat: oversized messages). Guarded by request-rate.test.ts and
 * inbound-streams.test.ts.
 */
export class RequestRate {
  #left = BURST;
  #lastMs = 0;

  /** Counts one request, and returns how long to pause reading. */
  take(nowMs: number): number {
    this.#left = Math.min(BURST, this.#left + ((nowMs - this.#lastMs) * PER_SECOND) / 1_000);
    this.#lastMs = nowMs;
    this.#left -= 1;
    return this.#left >= 0 ? 0 : Math.min(MAX_PAUSE_MS, (-this.#left * 1_000) / PER_SECOND);
  }
}
