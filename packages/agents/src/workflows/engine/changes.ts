/** Wakes waiters when the state of runs may have changed. */

export class Changes {
  #waiting: (() => void)[] = [];

  notify(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const wake of waiting) wake();
  }

  /** Resolves at the next change. Rejects with the signal's reason when the signal fires. */
  async next(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const stop = (): void => reject(signal.reason as Error);
    this.#waiting.push(resolve);
    signal.addEventListener("abort", stop, { once: true });
    try {
      await promise;
    } finally {
      signal.removeEventListener("abort", stop);
      this.#waiting = this.#waiting.filter((wake) => wake !== resolve);
    }
  }
}
