/** Runs expensive work of many requests one piece at a time, with other work in between. */

export class Turns {
  readonly #waiting: (() => void)[] = [];

  /** Runs the work in an event loop turn without other such work. */
  take(work: () => void): void {
    this.#waiting.push(work);
    if (this.#waiting.length === 1) this.#schedule();
  }

  #schedule(): void {
    setImmediate(() => {
      try {
        this.#waiting[0]?.();
      } finally {
        this.#waiting.shift();
        if (this.#waiting.length > 0) this.#schedule();
      }
    });
  }
}
