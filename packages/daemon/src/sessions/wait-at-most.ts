/** Waits with a time limit. */
import { SandboxError } from "@sandkasten/protocol";
import { ObservedDeadline } from "../observed-deadline.ts";

/**
 * Waits for a promise, but not beyond a timeout, and not for a caller who has gone. Time in which
 * the daemon was stopped does not count: what happened meanwhile is known only afterwards.
 */
export async function waitAtMost(
  event: Promise<unknown>,
  timeoutMs: number | undefined,
  signal: AbortSignal | undefined,
): Promise<void> {
  const over = Promise.withResolvers<unknown>();
  const deadline =
    timeoutMs === undefined
      ? undefined
      : new ObservedDeadline(timeoutMs, () => over.resolve(undefined));
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
    deadline?.stop();
    signal?.removeEventListener("abort", giveUp);
  }
}
