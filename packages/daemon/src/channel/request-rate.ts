/** Limits how often a runner may send requests, or events, before it has to wait. */

const MAX_PAUSE_MS = 250;

export interface Rate {
  readonly perSecond: number;
  readonly burst: number;
}

export const REQUEST_RATE: Rate = { perSecond: 1_000, burst: 2_000 };
/** More than programs cause that write many files. */
export const EVENT_RATE: Rate = { perSecond: 20_000, burst: 20_000 };

/**
 * SECURITY: code that resolves names or changes files in a loop would keep the daemon busy and delay
 * every other session (threat: oversized messages). Guarded by request-rate.test.ts,
 * inbound-streams.test.ts and hostile-runner.test.ts.
 */
export class RequestRate {
  readonly #rate: Rate;
  #left: number;
  #lastMs = 0;

  constructor(rate: Rate) {
    this.#rate = rate;
    this.#left = rate.burst;
  }

  /** Counts one, and returns how long to pause reading. */
  take(nowMs: number): number {
    const { perSecond, burst } = this.#rate;
    this.#left = Math.min(burst, this.#left + ((nowMs - this.#lastMs) * perSecond) / 1_000);
    this.#lastMs = nowMs;
    this.#left -= 1;
    return this.#left >= 0 ? 0 : Math.min(MAX_PAUSE_MS, (-this.#left * 1_000) / perSecond);
  }
}
