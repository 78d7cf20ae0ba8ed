/** The daemon's own deadline for a command, later than the timeout that the sandbox enforces. */

const LOOK_MS = 1000;
/** How long a silent command may be overdue after its timeout. */
const SILENCE_MS = 60_000;
/** The same while output keeps arriving, however little. */
const TRICKLE_MS = 3_600_000;
/** Far more than a sandbox can still hold of an ended command. */
const MAX_LATE_BYTES = 16 * 1024 * 1024;

export interface DeadlineTimes {
  readonly lookMs: number;
  readonly silenceMs: number;
  readonly trickleMs: number;
}

const DEADLINE_TIMES: DeadlineTimes = {
  lookMs: LOOK_MS,
  silenceMs: SILENCE_MS,
  trickleMs: TRICKLE_MS,
};

/**
 * SECURITY: a compromised sandbox may answer every ping and yet never start or end a command, or
 * print forever, and so block a shell's queue (threat: a stalling runner). Time counts only while
 * the daemon could observe it and is not the cause of the delay. Guarded by exec-deadline.test.ts.
 */
export class ExecDeadline {
  readonly #times: DeadlineTimes;
  readonly #timeoutMs: number;
  readonly #isHeldUp: () => boolean;
  readonly #passed: () => void;
  readonly #timer: NodeJS.Timeout;
  #lastLookMs = performance.now();
  #seenMs = 0;
  #silentMs = 0;
  #lateBytes = 0;
  #hasOutput = false;

  /** `isHeldUp` returns whether the command waits for the daemon or is frozen. */
  constructor(
    timeoutMs: number,
    isHeldUp: () => boolean,
    passed: () => void,
    times: DeadlineTimes = DEADLINE_TIMES,
  ) {
    this.#timeoutMs = timeoutMs;
    this.#isHeldUp = isHeldUp;
    this.#passed = passed;
    this.#times = times;
    this.#timer = setInterval(() => this.#look(), times.lookMs).unref();
  }

  /** Counts received output. */
  count(bytes: number): void {
    this.#hasOutput = true;
    if (this.#seenMs < this.#timeoutMs) return;
    this.#lateBytes += bytes;
    if (this.#lateBytes > MAX_LATE_BYTES) this.#end();
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  #look(): void {
    const nowMs = performance.now();
    // A late check means that this process was stalled, not that the sandbox was.
    const elapsedMs = Math.min(nowMs - this.#lastLookMs, this.#times.lookMs * 2);
    this.#lastLookMs = nowMs;
    const isSilent = !this.#hasOutput;
    this.#hasOutput = false;
    if (this.#isHeldUp()) return;
    this.#seenMs += elapsedMs;
    if (this.#seenMs < this.#timeoutMs) return;
    this.#silentMs = isSilent ? this.#silentMs + elapsedMs : 0;
    const isOver = this.#seenMs - this.#timeoutMs > this.#times.trickleMs;
    if (isOver || this.#silentMs > this.#times.silenceMs) this.#end();
  }

  #end(): void {
    this.stop();
    this.#passed();
  }
}
