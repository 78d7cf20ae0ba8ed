/** When a request is retried, and after which delay. */
import type { SandboxError } from "./sandbox-error.ts";

const MAX_DELAY_MS = 8_000;
/** A longer Retry-After is reported to the caller instead of waiting. */
const MAX_RETRY_AFTER_MS = 60_000;

/** A connection that lasted this long was successful: the retry count starts again. */
export const HELD_MS = 30_000;

/** How often to retry. */
export interface RetryPolicy {
  /** The maximum number of retries. */
  readonly maxRetries: number;
  /** The longest first delay; it doubles with each retry. */
  readonly retryDelayMs: number;
}

/** Whether a retry can help. A command's failed result is final. */
export function canRetry(error: SandboxError): boolean {
  if (error.result?.status === "done") return false;
  if (!error.retryable || (error.retryAfterMs ?? 0) > MAX_RETRY_AFTER_MS) return false;
  return error.code === "CONNECTION_FAILED" || error.status === 429 || error.status === 503;
}

/**
 * The delay before the next retry: at least what the daemon asked for, otherwise exponential
 * backoff with jitter, between half and all of the doubling time.
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

/** The header, which contains seconds or a date, as milliseconds from now. */
export function parseRetryAfter(value: string | null, nowMs: number): number | undefined {
  if (value === null || value.trim() === "") return undefined;
  const ms = /^\d+$/.test(value.trim()) ? Number(value) * 1000 : Date.parse(value) - nowMs;
  return Number.isNaN(ms) ? undefined : Math.max(0, ms);
}

/** Resolves after a time; rejects with the signal's reason if that comes first. */
export function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = (): void => {
      clearTimeout(timer);
      // The reason is the caller's and is passed on unchanged.
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
