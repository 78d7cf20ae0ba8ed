/** Lets a limited number of runs work at once; the others wait in order of arrival. */

export class Slots {
  readonly #maxQueued: number;
  readonly #waiting: (() => void)[] = [];
  #free: number;

  constructor(maxAtOnce: number, maxQueued: number) {
    this.#free = maxAtOnce;
    this.#maxQueued = maxQueued;
  }

  get isFull(): boolean {
    return this.#free === 0 && this.#waiting.length >= this.#maxQueued;
  }

  /** Rejects with the signal's reason if the signal fires before a slot is free. */
  async use<Result>(work: () => Promise<Result>, signal: AbortSignal): Promise<Result> {
    if (this.#free > 0) this.#free -= 1;
    else await this.#wait(signal);
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#free += 1;
      else next();
    }
  }

  async #wait(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const leave = (): void => {
      const index = this.#waiting.indexOf(resolve);
      if (index === -1) return;
      this.#waiting.splice(index, 1);
      reject(signal.reason as Error);
    };
    this.#waiting.push(resolve);
    signal.addEventListener("abort", leave, { once: true });
    try {
      await promise;
    } finally {
      signal.removeEventListener("abort", leave);
    }
  }
}
