/** Waits for the end that a runner owes once a command's own timeout has passed. */
import type { ConnectionHolder } from "./connection-holder.ts";

/**
 * SECURITY: the runner enforces timeouts, but may be hostile. Without this a session's lock could be
 * held for ever by a command that never ends (threat 42). Guarded by "never ends a command" in
 * hostile-runner.test.ts.
 */
export class EndWatch {
  readonly #holder: ConnectionHolder;
  readonly #timeoutMs: number;
  /** Acts on a missed end and tells true, or tells false when the delay is ours. */
  readonly #missed: () => boolean;
  #timer: NodeJS.Timeout | undefined;

  constructor(holder: ConnectionHolder, timeoutMs: number | undefined, missed: () => boolean) {
    this.#holder = holder;
    this.#timeoutMs = timeoutMs ?? 0;
    this.#missed = missed;
  }

  /** Called when the command starts; a second call changes nothing. */
  start(): void {
    if (this.#timeoutMs > 0 && this.#timer === undefined)
      this.#wait(this.#timeoutMs + this.#holder.deadlines.endGraceMs);
  }

  stop(): void {
    clearTimeout(this.#timer);
  }

  #wait(delayMs: number): void {
    // A timer cannot be longer than 2^31 - 1 ms, which is more than 24 days.
    this.#timer = setTimeout(
      () => {
        if (this.#holder.silenceExpected() || !this.#missed())
          this.#wait(this.#holder.deadlines.endGraceMs);
      },
      Math.min(delayMs, 0x7fff_ffff),
    ).unref();
  }
}
