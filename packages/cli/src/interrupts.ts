/** One place where Ctrl-C, SIGTERM and a closed pipe arrive, and from where commands learn of them. */
import { exitCodeOf, type Interruption, Interrupted } from "./failure.ts";

export class Interrupts {
  readonly #controller = new AbortController();
  readonly #exitNow: (code: number) => void;
  #handler: ((by: Interruption) => void) | undefined;

  constructor(exitNow: (code: number) => void) {
    this.#exitNow = exitNow;
  }

  /** Aborts at the first interruption, so that the command unwinds and cleans up. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  get interruption(): Interruption | undefined {
    const reason: unknown = this.signal.reason;
    return reason instanceof Interrupted ? reason.by : undefined;
  }

  /** A second interruption ends the process at once: the first one's cleaning up has had its chance. */
  interrupt(by: Interruption): void {
    if (this.#handler !== undefined) this.#handler(by);
    else if (this.signal.aborted) this.#repeated(by);
    else this.#controller.abort(new Interrupted(by));
  }

  /** Gives interruptions to a command that passes them on, until it lets go. */
  divert(handler: (by: Interruption) => void): Disposable {
    this.#handler = handler;
    return {
      [Symbol.dispose]: () => {
        this.#handler = undefined;
      },
    };
  }

  /** For a handler that has nothing more to try than what everybody does. */
  unwind(by: Interruption): void {
    this.#handler = undefined;
    this.interrupt(by);
  }

  /** Rejects at the first interruption, whatever becomes of the work then. */
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
    // Output that stays closed says nothing new each time it is written to.
    if (by.kind === "signal") this.#exitNow(exitCodeOf(by));
  }
}
