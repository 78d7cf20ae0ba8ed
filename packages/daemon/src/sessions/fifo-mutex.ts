/** A mutex that admits waiters in order of arrival. */

export class FifoMutex {
  readonly #waiting: (() => void)[] = [];
  #taken = false;

  /** Whether entering now succeeds at once. */
  get free(): boolean {
    return !this.#taken;
  }

  /**
   * Resolves with a function that admits the next waiter. Rejects with the signal's reason if
   * aborted before.
   */
  async enter(signal?: AbortSignal): Promise<() => void> {
    signal?.throwIfAborted();
    if (this.#taken) await this.#turn(signal);
    this.#taken = true;
    let left = false;
    return () => {
      if (left) return;
      left = true;
      const next = this.#waiting.shift();
      if (next === undefined) this.#taken = false;
      else next();
    };
  }

  async run<T>(work: () => Promise<T>): Promise<T> {
    const leave = await this.enter();
    try {
      return await work();
    } finally {
      leave();
    }
  }

  async #turn(signal?: AbortSignal): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      const giveUp = (): void => {
        const place = this.#waiting.indexOf(come);
        if (place >= 0) this.#waiting.splice(place, 1);
        reject(signal?.reason as Error);
      };
      const come = (): void => {
        signal?.removeEventListener("abort", giveUp);
        resolve();
      };
      signal?.addEventListener("abort", giveUp, { once: true });
      this.#waiting.push(come);
    });
  }
}
