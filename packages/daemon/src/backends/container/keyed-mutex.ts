/** Runs the work on one key in the order it was asked for, and work on different keys side by side. */
export class KeyedMutex {
  readonly #last = new Map<string, Promise<unknown>>();

  async run<T>(key: string, work: () => Promise<T>): Promise<T> {
    const before = this.#last.get(key);
    const turn = (async () => {
      // Only the caller of the work before learns how it ended.
      await before?.catch(() => undefined);
      return await work();
    })();
    this.#last.set(key, turn);
    try {
      return await turn;
    } finally {
      if (this.#last.get(key) === turn) this.#last.delete(key);
    }
  }
}
