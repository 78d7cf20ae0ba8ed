/**
 * The time limit of a run. It pauses while sandboxes and other agents work, and while this process
 * is suspended: a run must not time out because the service was stopped.
 */

/** The interval between two ticks of the clock. */
const TICK_MS = 1_000;
/** The maximum time that one tick counts: the rest is time in which the process was suspended. */
const MAX_TICKS_AT_ONCE = 2;

export class RunClock implements Disposable {
  readonly #onTimeout: () => void;
  readonly #tickMs: number;
  #leftMs: number;
  #startedMs = 0;
  #timer: NodeJS.Timeout | undefined;
  #pauses = 0;
  #isStopped = false;

  constructor(timeoutMs: number, onTimeout: () => void, tickMs = TICK_MS) {
    this.#leftMs = timeoutMs;
    this.#tickMs = tickMs;
    this.#onTimeout = onTimeout;
    this.#go();
  }

  /** Runs work whose time does not count. */
  async paused<Result>(work: () => Promise<Result>): Promise<Result> {
    this.#pauses += 1;
    if (this.#pauses === 1) this.#halt();
    try {
      return await work();
    } finally {
      this.#pauses -= 1;
      if (this.#pauses === 0) this.#go();
    }
  }

  stop(): void {
    this.#isStopped = true;
    this.#halt();
  }

  [Symbol.dispose](): void {
    this.stop();
  }

  #go(): void {
    if (this.#isStopped) return;
    this.#startedMs = performance.now();
    // A pause may discover that more time has passed than was left.
    const nextMs = Math.max(0, Math.min(this.#leftMs, this.#tickMs));
    this.#timer = setTimeout(() => this.#tick(), nextMs);
  }

  #tick(): void {
    this.#count();
    if (this.#leftMs > 0) this.#go();
    else this.#onTimeout();
  }

  #halt(): void {
    if (this.#timer === undefined) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#count();
  }

  #count(): void {
    const passedMs = performance.now() - this.#startedMs;
    this.#leftMs -= Math.min(passedMs, this.#tickMs * MAX_TICKS_AT_ONCE);
  }
}
