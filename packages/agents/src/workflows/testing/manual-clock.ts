/** A clock that only advances when a test tells it to. */
import type { Clock } from "../engine/clock.ts";

interface Sleeper {
  readonly timeMs: number;
  readonly wake: () => void;
}

export class ManualClock implements Clock {
  #nowMs = Date.parse("2030-01-01T00:00:00Z");
  readonly #sleepers = new Set<Sleeper>();

  nowMs(): number {
    return this.#nowMs;
  }

  async sleepUntil(timeMs: number, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    if (timeMs <= this.#nowMs) return;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const sleeper = { timeMs, wake: resolve };
    const stop = (): void => reject(signal.reason as Error);
    this.#sleepers.add(sleeper);
    signal.addEventListener("abort", stop, { once: true });
    try {
      await promise;
    } finally {
      this.#sleepers.delete(sleeper);
      signal.removeEventListener("abort", stop);
    }
  }

  /** The pending wake-up times, in milliseconds from now, soonest first. */
  get waits(): readonly number[] {
    return [...this.#sleepers].map(({ timeMs }) => timeMs - this.#nowMs).toSorted((a, b) => a - b);
  }

  /** Advances the clock, and wakes the waits that are due. */
  turn(ms: number): void {
    this.#nowMs += ms;
    for (const { timeMs, wake } of this.#sleepers) if (timeMs <= this.#nowMs) wake();
  }
}
