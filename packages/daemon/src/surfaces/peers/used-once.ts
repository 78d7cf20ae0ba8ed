/** Remembers used names for a while, so they cannot be used again. */

export class UsedOnce {
  readonly #rememberMs: number;
  readonly #nowMs: () => number;
  /** Names used in the current period, and in the previous one. */
  #recent = new Set<string>();
  #earlier = new Set<string>();
  #sinceMs: number;

  constructor(rememberMs: number, nowMs: () => number) {
    this.#rememberMs = rememberMs;
    this.#nowMs = nowMs;
    this.#sinceMs = nowMs();
  }

  /** False if it was used before, within the remembered time. */
  use(name: string): boolean {
    const now = this.#nowMs();
    if (now - this.#sinceMs >= this.#rememberMs) {
      this.#earlier = now - this.#sinceMs >= 2 * this.#rememberMs ? new Set() : this.#recent;
      this.#recent = new Set();
      this.#sinceMs = now;
    }
    if (this.#recent.has(name) || this.#earlier.has(name)) return false;
    this.#recent.add(name);
    return true;
  }
}
