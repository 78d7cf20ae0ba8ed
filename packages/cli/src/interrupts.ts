/** Receives Ctrl-C, SIGTERM and closed pipes, and passes them to commands. */
import { exitCodeOf, type Interruption, Interrupted } from "./failure.ts";

export class Interrupts {
  readonly #controller = new AbortController();
  readonly #exitNow: (code: number) => void;
  #handler: ((by: Interruption) => void) | undefined;

  constructor(exitNow: (code: number) => void) {
    this.#exitNow = exitNow;
  }

  /** Aborts at the first interruption, so the command unwinds and cleans up. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  get interruption(): Interruption | undefined {
    const reason: unknown = this.signal.reason;
    return reason instanceof Interrupted ? reason.by : undefined;
  }

  /** A second interruption ends the process at once. */
  interrupt(by: Interruption): void {
    if (this.#handler !== undefined) this.#handler(by);
    else if (this.signal.aborted) this.#repeated(by);
    else this.#controller.abort(new Interrupted(by));
  }

  /** Passes interruptions to a handler until it is disposed. */
  divert(handler: (by: Interruption) => void): Disposable {
    this.#handler = handler;
    return {
      [Symbol.dispose]: () => {
        this.#handler = undefined;
      },
    };
  }

  /** The default handling, for a handler that has nothing more to try. */
  unwind(by: Interruption): void {
    this.#handler = undefined;
    this.interrupt(by);
  }

  /** Rejects at the first interruption, regardless of the work. */
  async race<T>(work: () => Promise<T>): Promise<T> {
    this.signal.throwIfAborted();
    const interrupted = Promise.withResolvers<never>();
    const reject = (): void => interrupted.reject(this.signal.reason as Error);
    this.signal.addEventListener("abort", reject, { once: true });
    try {
      return await Promise.race([work(), interrupted.promise]);
    } finally {
      this.signal.removeEventListener("abort", reject);
    }
  }

  #repeated(by: Interruption): void {
    // A pipe that stays closed reports the same again on each write.
    if (by.kind === "signal") this.#exitNow(exitCodeOf(by));
  }
}
