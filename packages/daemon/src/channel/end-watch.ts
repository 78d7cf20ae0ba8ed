/** Waits for the end that a runner must report once a command's timeout has passed. */
import { ObservedDeadline } from "../observed-deadline.ts";
import type { ConnectionHolder } from "./connection-holder.ts";

/**
 * SECURITY: the runner enforces timeouts, but may be hostile. Without this, a command that never
 * ends could hold a session's lock forever (threat: a stalling runner). Guarded by "never ends a
 * command" in hostile-runner.test.ts.
 */
export class EndWatch {
  readonly #holder: ConnectionHolder;
  readonly #timeoutMs: number;
  /** Acts on a missed end and returns true; returns false if the delay is the daemon's own. */
  readonly #missed: () => boolean;
  #deadline: ObservedDeadline | undefined;
  #isOver = false;

  constructor(holder: ConnectionHolder, timeoutMs: number | undefined, missed: () => boolean) {
    this.#holder = holder;
    this.#timeoutMs = timeoutMs ?? 0;
    this.#missed = missed;
  }

  /** How long to try to reconnect a lost stream, beyond the deadline if there is one. */
  get reattachMs(): number {
    const { reattachMs, frozenMs } = this.#holder.deadlines;
    return this.#timeoutMs > 0 ? reattachMs : frozenMs;
  }

  /** Whether the command has a deadline that has not passed. */
  get isPending(): boolean {
    return this.#timeoutMs > 0 && !this.#isOver;
  }

  /** Called when the command starts; idempotent. */
  start(): void {
    if (this.#timeoutMs > 0 && this.#deadline === undefined)
      this.#wait(this.#timeoutMs + this.#holder.deadlines.endGraceMs);
  }

  stop(): void {
    this.#deadline?.stop();
  }

  #wait(delayMs: number): void {
    this.#deadline = new ObservedDeadline(delayMs, () => {
      const silent = this.#holder.silenceExpected();
      this.#isOver = !silent;
      if (silent || !this.#missed()) this.#wait(this.#holder.deadlines.endGraceMs);
    });
  }
}
