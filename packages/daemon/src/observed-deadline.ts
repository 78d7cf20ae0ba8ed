/** A deadline that counts only time in which this process could run. */

/** The longest pause between two checks. */
const LOOK_INTERVAL_MS = 1_000;
/** A check later than this many intervals means that the process was stopped or blocked. */
const LATE_INTERVALS = 2;

/**
 * A process that was stopped (SIGSTOP, a suspended machine, a blocked event loop) runs its timers
 * before it reads pending input. A plain timer would then blame others for the process's own
 * absence. This one counts at most two intervals per check, and expires only after pending input
 * was read.
 */
export class ObservedDeadline {
  readonly #afterMs: number;
  readonly #expired: () => void;
  #leftMs: number;
  #lookedAtMs = 0;
  #timer: NodeJS.Timeout | undefined;
  #immediate: NodeJS.Immediate | undefined;

  constructor(afterMs: number, expired: () => void) {
    this.#afterMs = afterMs;
    this.#leftMs = afterMs;
    this.#expired = expired;
    this.#look();
  }

  /** Restarts the full time. */
  renew(): void {
    this.#leftMs = this.#afterMs;
    this.#lookedAtMs = performance.now();
  }

  /** A stopped deadline never expires. */
  stop(): void {
    clearTimeout(this.#timer);
    clearImmediate(this.#immediate);
  }

  #look(): void {
    const intervalMs = Math.max(1, Math.min(this.#leftMs, LOOK_INTERVAL_MS));
    this.#lookedAtMs = performance.now();
    this.#timer = setTimeout(() => {
      const elapsedMs = performance.now() - this.#lookedAtMs;
      const wasAway = elapsedMs > LATE_INTERVALS * Math.max(intervalMs, LOOK_INTERVAL_MS);
      this.#leftMs -= Math.min(elapsedMs, LATE_INTERVALS * intervalMs);
      if (this.#leftMs > 0) this.#look();
      else if (wasAway) {
        this.#leftMs = intervalMs;
        this.#look();
      } else this.#immediate = setImmediate(this.#expired);
    }, intervalMs).unref();
  }
}
