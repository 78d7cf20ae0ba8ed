/** The readers of a running command's output: nothing that one of them has yet to read is dropped. */

/** A reader; nothing after `offset` may be dropped. */
export interface Follower {
  offset: number;
}

export class Followers {
  readonly #followers = new Set<Follower>();
  /** Present while a caller waits for them. */
  #progress: PromiseWithResolvers<void> | undefined;
  #isStopped = false;

  get isEmpty(): boolean {
    return this.#followers.size === 0;
  }

  add(offset: number): Follower {
    const follower = { offset };
    this.#followers.add(follower);
    return follower;
  }

  advance(follower: Follower, offset: number): void {
    follower.offset = offset;
    this.#progressed();
  }

  remove(follower: Follower): void {
    this.#followers.delete(follower);
    this.#progressed();
  }

  /** Resolves when all have read everything before the offset, or need not be waited for any more. */
  async readBy(offset: number): Promise<void> {
    while (!this.#isStopped && [...this.#followers].some((one) => one.offset < offset)) {
      this.#progress ??= Promise.withResolvers();
      await this.#progress.promise;
    }
  }

  /** Releases everything that waits for them. */
  stop(): void {
    this.#isStopped = true;
    this.#progressed();
  }

  #progressed(): void {
    this.#progress?.resolve();
    this.#progress = undefined;
  }
}
