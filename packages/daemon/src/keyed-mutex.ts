/** Serializes work with the same key, and runs work with different keys concurrently. */
export class KeyedMutex {
  readonly #last = new Map<string, Promise<unknown>>();

  async run<T>(key: string, work: () => Promise<T>): Promise<T> {
    const before = this.#last.get(key);
    const turn = (async () => {
      // Only the caller of the previous work gets its error.
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
