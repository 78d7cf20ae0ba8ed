/** Works on several items at once, a limited number at a time, and stops the rest when one fails. */
import { RunStop, StepFailure, StepStopped } from "./stops.ts";

export interface AllOfOptions {
  readonly maxConcurrency: number;
  readonly signal: AbortSignal;
  /** The failure, for those that are stopped because of it. */
  readonly what: string;
}

/**
 * Results in the order of the items. After a failure nothing new starts and running work is told to
 * stop. Throws only after all work has ended, so nothing keeps running in the background.
 */
export async function allOf<Item, Result>(
  items: readonly Item[],
  { maxConcurrency, signal, what }: AllOfOptions,
  work: (item: Item, index: number, signal: AbortSignal) => Promise<Result>,
): Promise<Result[]> {
  const stop = new AbortController();
  const inner = AbortSignal.any([signal, stop.signal]);
  const results = new Array<Result>(items.length);
  const errors: unknown[] = [];
  const waiting = items.entries();
  const worker = async (): Promise<void> => {
    for (const [index, item] of waiting) {
      if (errors.length > 0) return;
      try {
        results[index] = await work(item, index, inner);
      } catch (error) {
        errors.push(error);
        // When the run stops, the other items may finish the step they are in.
        if (!(error instanceof RunStop))
          stop.abort(new StepStopped(`stopped because ${what} failed`));
        return;
      }
    }
  };
  const workers = Math.min(maxConcurrency, items.length);
  await Promise.all(Array.from({ length: workers }, worker));
  signal.throwIfAborted();
  if (errors.length > 0) throw mostInformative(errors);
  return results;
}

/** A failure is more informative than the stops that it caused. */
function mostInformative(errors: readonly unknown[]): unknown {
  return (
    errors.find(
      (error) =>
        !(error instanceof RunStop) &&
        !(error instanceof StepStopped) &&
        !(error instanceof StepFailure),
    ) ??
    errors.find((error) => error instanceof StepFailure) ??
    errors.find((error) => error instanceof RunStop) ??
    errors[0]
  );
}
