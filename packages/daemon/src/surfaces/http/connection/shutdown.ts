/** Notifies long-running streams and waits that the daemon is stopping. */
import { SandboxError } from "@sandkasten/protocol";

export class Shutdown {
  readonly #listeners = new Set<() => void>();
  #begun = false;

  get begun(): boolean {
    return this.#begun;
  }

  begin(): void {
    this.#begun = true;
    for (const listener of this.#listeners) listener();
    this.#listeners.clear();
  }

  /** Calls the listener when the daemon stops, until the returned function is called. */
  listen(listener: () => void): () => void {
    if (this.#begun) listener();
    else this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** The result of some work, or a refusal as soon as the daemon stops. */
  async orStop<T>(work: Promise<T>, what: string): Promise<T> {
    const stopped = Promise.withResolvers<never>();
    const forget = this.listen(() => stopped.reject(stopping(what)));
    try {
      return await Promise.race([work, stopped.promise]);
    } finally {
      forget();
    }
  }
}

export function stopping(what: string): SandboxError {
  return new SandboxError(
    "SANDBOX_UNREACHABLE",
    `the daemon is stopping; ${what} continues, so retry in a moment`,
  );
}
