/**
 * Lets only as many sandboxes be created at once as the machine can work on. Owners take turns, each
 * with its own requests in order, so a burst of one owner does not delay the next create of another.
 */

interface Place {
  readonly come: () => void;
}

export class CreateQueue {
  readonly #concurrency: number;
  /** By owner, in the order of their next turns. */
  readonly #waiting = new Map<string, Place[]>();
  /** Work that no request waits for, such as refilling the pool: runs when the queue is empty. */
  readonly #background: Place[] = [];
  #running = 0;

  constructor(concurrency: number) {
    this.#concurrency = Math.max(1, Math.floor(concurrency));
  }

  /** How many creations are waiting. */
  get length(): number {
    const owners = [...this.#waiting.values()];
    return owners.reduce((sum, places) => sum + places.length, this.#background.length);
  }

  /** Runs `work` when it is the owner's turn. Rejects with the signal's reason if aborted before. */
  async run<T>(owner: string, work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    return await this.#run(this.#placesOf(owner), work, signal);
  }

  /** Runs `work` when no other work is waiting. */
  async runInBackground<T>(work: () => Promise<T>): Promise<T> {
    return await this.#run(() => this.#background, work);
  }

  async #run<T>(places: () => Place[], work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    signal?.throwIfAborted();
    if (this.#running >= this.#concurrency) await this.#turn(places, signal);
    else this.#running += 1;
    try {
      return await work();
    } finally {
      this.#next();
    }
  }

  #placesOf(owner: string): () => Place[] {
    return () => {
      const places = this.#waiting.get(owner) ?? [];
      this.#waiting.set(owner, places);
      return places;
    };
  }

  async #turn(places: () => Place[], signal?: AbortSignal): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      const line = places();
      const place: Place = {
        come: () => {
          signal?.removeEventListener("abort", giveUp);
          resolve();
        },
      };
      const giveUp = (): void => {
        const at = line.indexOf(place);
        if (at >= 0) line.splice(at, 1);
        reject(signal?.reason as Error);
      };
      signal?.addEventListener("abort", giveUp, { once: true });
      line.push(place);
    });
  }

  /** Passes a finished slot to the next in line, or releases it. */
  #next(): void {
    for (const [owner, places] of this.#waiting) {
      this.#waiting.delete(owner);
      const place = places.shift();
      if (place === undefined) continue;
      // Moves the owner behind all others for its next turn.
      if (places.length > 0) this.#waiting.set(owner, places);
      place.come();
      return;
    }
    const place = this.#background.shift();
    if (place === undefined) this.#running -= 1;
    else place.come();
  }
}
