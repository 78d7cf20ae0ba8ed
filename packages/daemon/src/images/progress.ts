/** Reports the progress of one operation to several callers, at a limited rate. */
import type { ImageProgress } from "../ports/image-store.ts";

export type ProgressListener = (progress: ImageProgress) => void;

const STEPS = 200;

export class ProgressReport {
  readonly #listeners = new Set<ProgressListener>();
  #phase: ImageProgress["phase"] = "unpack";
  #total: number | undefined;
  #done = 0;
  #reported = 0;

  add(listener: ProgressListener | undefined): void {
    if (listener !== undefined) this.#listeners.add(listener);
  }

  begin(phase: ImageProgress["phase"], total?: number): void {
    this.#phase = phase;
    this.#total = total;
    this.#done = 0;
    this.#report();
  }

  advance(bytes: number): void {
    this.set(this.#done + bytes);
  }

  set(done: number): void {
    this.#done = done;
    const step = Math.max((this.#total ?? 0) / STEPS, 64 * 1024);
    if (done - this.#reported >= step || done === this.#total) this.#report();
  }

  #report(): void {
    this.#reported = this.#done;
    const progress = {
      phase: this.#phase,
      done: this.#done,
      ...(this.#total === undefined ? {} : { total: this.#total }),
    };
    for (const listener of this.#listeners) listener(progress);
  }
}
