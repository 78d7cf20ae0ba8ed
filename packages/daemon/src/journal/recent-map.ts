/** A map that evicts the least recently used entries. */

export class RecentMap<V> {
  readonly #limit: number;
  readonly #values = new Map<string, V>();

  constructor(limit: number) {
    this.#limit = limit;
  }

  get(key: string): V | undefined {
    const value = this.#values.get(key);
    if (value !== undefined) this.set(key, value);
    return value;
  }

  set(key: string, value: V): void {
    this.#values.delete(key);
    this.#values.set(key, value);
    if (this.#values.size <= this.#limit) return;
    const [oldest] = this.#values.keys();
    if (oldest !== undefined) this.#values.delete(oldest);
  }

  forgetAllOf(prefix: string): void {
    for (const key of this.#values.keys()) {
      if (key.startsWith(prefix)) this.#values.delete(key);
    }
  }
}
