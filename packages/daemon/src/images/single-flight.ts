/** Deduplicates concurrent work: callers with the same key share one run. */
import { ProgressReport } from "./progress.ts";
import type { ProgressListener } from "./progress.ts";

export class SingleFlight<T> {
  readonly #flights = new Map<
    string,
    { readonly result: Promise<T>; readonly progress: ProgressReport }
  >();

  /** Starts the work for a key, or joins it. */
  run(
    key: string,
    listener: ProgressListener | undefined,
    work: (progress: ProgressReport) => Promise<T>,
  ): Promise<T> {
    const running = this.#flights.get(key);
    if (running !== undefined) {
      running.progress.add(listener);
      return running.result;
    }
    const progress = new ProgressReport();
    progress.add(listener);
    const result = work(progress).finally(() => this.#flights.delete(key));
    this.#flights.set(key, { result, progress });
    return result;
  }
}
