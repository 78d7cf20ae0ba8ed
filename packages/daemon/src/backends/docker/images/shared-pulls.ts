/** Shares one run of the same work between concurrent callers, and cancels it when the last of them leaves. */
import { SandboxError } from "@sandkasten/protocol";
import type { EnsureOptions, ImageProgress } from "../../../ports/image-store.ts";

type Tell = (progress: ImageProgress) => void;

interface Flight<T> {
  readonly result: Promise<T>;
  readonly gaveUp: AbortController;
  readonly waiters: Set<{ readonly onProgress: Tell | undefined }>;
}

export class SharedPulls<T> {
  readonly #flights = new Map<string, Flight<T>>();

  /** Starts the work for a key, or joins it. */
  async join(
    key: string,
    { onProgress, signal }: EnsureOptions,
    work: (tell: Tell, signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    if (signal?.aborted === true) throw cancelled();
    const flight = this.#flights.get(key) ?? this.#start(key, work);
    const waiter = { onProgress };
    flight.waiters.add(waiter);
    try {
      return await unlessAborted(flight.result, signal);
    } finally {
      flight.waiters.delete(waiter);
      if (flight.waiters.size === 0) {
        // New callers must not join work that is being cancelled.
        this.#forget(key, flight);
        flight.gaveUp.abort();
      }
    }
  }

  #start(key: string, work: (tell: Tell, signal: AbortSignal) => Promise<T>): Flight<T> {
    const gaveUp = new AbortController();
    const waiters: Flight<T>["waiters"] = new Set();
    const tell: Tell = (progress) => {
      for (const { onProgress } of waiters) onProgress?.(progress);
    };
    const result = work(tell, gaveUp.signal);
    const flight = { result, gaveUp, waiters };
    this.#flights.set(key, flight);
    const forget = (): void => this.#forget(key, flight);
    // Waiting callers get the failure; if all have left, it is ignored.
    result.then(forget, forget);
    return flight;
  }

  #forget(key: string, flight: Flight<T>): void {
    if (this.#flights.get(key) === flight) this.#flights.delete(key);
  }
}

async function unlessAborted<T>(result: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return await result;
  const left = Promise.withResolvers<never>();
  const leave = (): void => left.reject(cancelled());
  signal.addEventListener("abort", leave, { once: true });
  try {
    return await Promise.race([result, left.promise]);
  } finally {
    signal.removeEventListener("abort", leave);
  }
}

function cancelled(): SandboxError {
  return new SandboxError(
    "CANCELLED",
    "The pull was cancelled because no request is waiting for it.",
  );
}
