/** When a request is sent again, and after how long. */
import type { SandboxError } from "./sandbox-error.ts";

const MAX_DELAY_MS = 8_000;
/** Whoever is asked to come back later than this is told so instead of being kept waiting. */
const MAX_RETRY_AFTER_MS = 60_000;

/** A connection that lasted so long got somewhere: what ended it is a new trouble. */
export const HELD_MS = 30_000;

/** How often to try again. */
export interface RetryPolicy {
  /** How many times a request is sent again. */
  readonly maxRetries: number;
  /** The longest first pause; each further one may be twice as long. */
  readonly retryDelayMs: number;
}

/** Whether sending the same request again can help. What a command has come to stays as it is. */
export function canRetry(error: SandboxError): boolean {
  if (error.result?.status === "done") return false;
  if (!error.retryable || (error.retryAfterMs ?? 0) > MAX_RETRY_AFTER_MS) return false;
  return error.code === "CONNECTION_FAILED" || error.status === 429 || error.status === 503;
}

/**
 * How long to pause before the next try: at least what the daemon asked for, else between half of
 * a doubling time and all of it, so that those who failed together do not come back together.
 */
export function pauseMs(
  failures: number,
  policy: RetryPolicy,
  retryAfterMs: number | undefined,
): number {
  const longestMs = Math.min(MAX_DELAY_MS, policy.retryDelayMs * 2 ** failures);
  const jitteredMs = longestMs * (0.5 + Math.random() / 2);
  return retryAfterMs === undefined ? jitteredMs : Math.max(retryAfterMs, jitteredMs);
}

/** The header, which holds seconds or a date, as milliseconds from now. */
export function parseRetryAfter(value: string | null, nowMs: number): number | undefined {
  if (value === null || value.trim() === "") return undefined;
  const ms = /^\d+$/.test(value.trim()) ? Number(value) * 1000 : Date.parse(value) - nowMs;
  return Number.isNaN(ms) ? undefined : Math.max(0, ms);
}

/** Resolves after a time; rejects with the signal's reason when that comes first. */
export function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = (): void => {
      clearTimeout(timer);
      // The reason is whatever the caller gave up with, and is handed back as it is.
      // oxlint-disable-next-line typescript/prefer-promise-reject-errors
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    if (signal?.aborted === true) stop();
    else signal?.addEventListener("abort", stop, { once: true });
  });
}
