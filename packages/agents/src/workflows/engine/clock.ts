/** The engine's clock, which tests can control. */

export interface Clock {
  /** Wall time in milliseconds: timers and approvals outlive a reboot of the machine. */
  nowMs(): number;
  /** Resolves at that time. Rejects with the signal's reason when the signal fires. */
  sleepUntil(timeMs: number, signal: AbortSignal): Promise<void>;
}

/** Node's timers are limited to 32 bits, and the wall clock may be changed meanwhile. */
const LONGEST_SLEEP_MS = 60_000;

export const systemClock: Clock = {
  nowMs: () => Date.now(),
  async sleepUntil(timeMs, signal) {
    for (;;) {
      signal.throwIfAborted();
      const leftMs = timeMs - Date.now();
      if (leftMs <= 0) return;
      await sleep(Math.min(leftMs, LONGEST_SLEEP_MS), signal);
    }
  },
};

async function sleep(ms: number, signal: AbortSignal): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, ms);
  const stop = (): void => reject(signal.reason as Error);
  signal.addEventListener("abort", stop, { once: true });
  try {
    await promise;
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", stop);
  }
}
