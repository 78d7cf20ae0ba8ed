/** Waits with a time limit. */
import { SandboxError } from "@sandkasten/protocol";

/** The maximum delay of Node's timers; a longer one ends at once. */
export const MAX_TIMER_MS = 0x7fff_ffff;

/** Waits for a promise, but not beyond a timeout, and not for a caller who has gone. */
export async function waitAtMost(
  event: Promise<unknown>,
  timeoutMs: number | undefined,
  signal: AbortSignal | undefined,
): Promise<void> {
  const over = Promise.withResolvers<unknown>();
  const timer =
    timeoutMs === undefined
      ? undefined
      : setTimeout(over.resolve, Math.min(timeoutMs, MAX_TIMER_MS));
  const giveUp = (): void => {
    const cause: unknown = signal?.reason;
    over.reject(new SandboxError("CANCELLED", "the caller cancelled the request", { cause }));
  };
  if (signal?.aborted === true) giveUp();
  signal?.addEventListener("abort", giveUp, { once: true });
  event.then(over.resolve, over.reject);
  try {
    await over.promise;
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", giveUp);
  }
}
