/** The time that a run has. It stands still while sandboxes and other agents work. */

export class RunClock implements Disposable {
  readonly #onTimeout: () => void;
  #leftMs: number;
  #startedMs = 0;
  #timer: NodeJS.Timeout | undefined;
  #pauses = 0;
  #isStopped = false;

  constructor(timeoutMs: number, onTimeout: () => void) {
    this.#leftMs = timeoutMs;
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
    // Timers cannot count further than this.
    this.#timer = setTimeout(this.#onTimeout, Math.min(this.#leftMs, 2 ** 31 - 1));
  }

  #halt(): void {
    if (this.#timer === undefined) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#leftMs = Math.max(0, this.#leftMs - (performance.now() - this.#startedMs));
  }
}
