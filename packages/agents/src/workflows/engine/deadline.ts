/** Ends work that takes too long. */
import type { Clock } from "./clock.ts";
import { StepFailure, StepStopped } from "./stops.ts";

export interface Deadline {
  readonly clock: Clock;
  /** No limit when absent. */
  readonly ms: number | undefined;
  /** Counted from this time; from now if absent. */
  readonly fromMs?: number;
  /** For the message. */
  readonly what: string;
}

/** Aborts the work's signal on timeout, waits for the work, and throws StepFailure TIMEOUT. */
export async function withinTime<Result>(
  { clock, ms, fromMs = clock.nowMs(), what }: Deadline,
  signal: AbortSignal,
  work: (signal: AbortSignal) => Promise<Result>,
): Promise<Result> {
  if (ms === undefined) return await work(signal);
  const late = new AbortController();
  const done = new AbortController();
  const watch = async (): Promise<void> => {
    await clock.sleepUntil(fromMs + ms, done.signal);
    late.abort(new StepStopped(`${what} took longer than ${ms / 1000} s`));
  };
  // It rejects only when the work is done.
  watch().catch(() => undefined);
  try {
    return await work(AbortSignal.any([signal, late.signal]));
  } catch (error) {
    if (!late.signal.aborted || signal.aborted) throw error;
    const message = `${what} took longer than ${ms / 1000} s`;
    throw new StepFailure({ code: "TIMEOUT", message }, { cause: error });
  } finally {
    done.abort();
  }
}
