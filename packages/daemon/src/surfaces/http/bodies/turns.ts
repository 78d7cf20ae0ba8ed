/** Does costly work of many requests one piece at a time, with everything else in between. */

export class Turns {
  readonly #waiting: (() => void)[] = [];

  /** Does the work in a turn of the event loop that no other work has. */
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
