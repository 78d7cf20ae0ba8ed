/** Does what concerns one thing in the order it was asked for, and different things side by side. */
export class Turns {
  readonly #last = new Map<string, Promise<unknown>>();

  async take<T>(key: string, act: () => Promise<T>): Promise<T> {
    const before = this.#last.get(key);
    const turn = (async () => {
      // How the one before ended is its own caller's business.
      await before?.catch(() => undefined);
      return await act();
    })();
    this.#last.set(key, turn);
    try {
      return await turn;
    } finally {
      if (this.#last.get(key) === turn) this.#last.delete(key);
    }
  }
}
