/** Updates of which only the newest matters, for a reader that may be slower than they arrive. */

export class NewestValue<T extends object> {
  #value: T | undefined;
  #ended = false;
  #change = Promise.withResolvers<void>();

  set(value: T): void {
    this.#value = value;
    this.#announce();
  }

  /** The reader still gets the last value. */
  end(): void {
    this.#ended = true;
    this.#announce();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T> {
    for (;;) {
      const value = this.#value;
      this.#value = undefined;
      if (value !== undefined) yield value;
      else if (this.#ended) return;
      else await this.#change.promise;
    }
  }

  #announce(): void {
    const { resolve } = this.#change;
    this.#change = Promise.withResolvers();
    resolve();
  }
}
