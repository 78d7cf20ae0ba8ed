/**
 * Hands received payloads to one reader, which may be slower or faster than the runner. Each
 * payload is valid until the next is requested.
 */
import { PayloadQueue } from "./payload-queue.ts";

export class Inbox {
  readonly #queue = new PayloadQueue();
  #waiting: PromiseWithResolvers<Buffer | undefined> | undefined;
  #closed = false;
  #error: Error | undefined;

  get empty(): boolean {
    return this.#queue.empty;
  }

  /** Takes a copy of a payload. */
  push(payload: Buffer): void {
    if (this.#closed) return;
    const waiting = this.#waiting;
    this.#waiting = undefined;
    this.#queue.push(payload);
    waiting?.resolve(this.#queue.shift());
  }

  /** Marks the end. With an error, the reader gets it after the queued payloads. */
  close(error?: Error): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#error = error;
    const waiting = this.#waiting;
    this.#waiting = undefined;
    if (error === undefined) waiting?.resolve(undefined);
    else waiting?.reject(error);
  }

  /** Discards queued payloads; a waiting reader keeps waiting, and a payload already read stays valid. */
  clear(): void {
    this.#queue.clear();
  }

  /** The next payload; undefined at the end. Only one reader may wait at a time. */
  next(): Promise<Buffer | undefined> {
    const payload = this.#queue.shift();
    if (payload !== undefined) return Promise.resolve(payload);
    if (this.#error !== undefined) return Promise.reject(this.#error);
    if (this.#closed) return Promise.resolve(undefined);
    if (this.#waiting !== undefined)
      return Promise.reject(
        new Error("two readers are waiting on one stream; use a single reader"),
      );
    this.#waiting = Promise.withResolvers();
    return this.#waiting.promise;
  }
}
