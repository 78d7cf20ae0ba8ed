/** How a channel greets a runner and how long it waits for it, with the defaults. */

export interface ConnectionOptions {
  readonly deadlines: ChannelDeadlines;
  /** True while the sandbox is paused: its silence is then not a failure. */
  readonly silenceExpected: () => boolean;
  /** The fencing token in HELLO: the runner closes connections with a lower one. */
  readonly fence?: number | undefined;
}

export interface ChannelDeadlines {
  /** From dialling to the runner's HELLO. */
  readonly helloMs: number;
  /** Since the last progress of a request that should be answered promptly. */
  readonly answerMs: number;
  /** The same for work that can be silent for long: removing trees, flushing large files. */
  readonly slowAnswerMs: number;
  /** After this long without a frame while streams are open, the runner is pinged. */
  readonly keepaliveMs: number;
  /**
   * The minimum time for which a command's stream tries to reconnect; it extends to the command's
   * deadline if that is later.
   */
  readonly reattachMs: number;
  /** The same for a command without a timeout, whose runner may be frozen and resumed. */
  readonly frozenMs: number;
  /** How long to wait for a command's end after its timeout. */
  readonly endGraceMs: number;
}

export const DEFAULT_DEADLINES: ChannelDeadlines = {
  helloMs: 5_000,
  answerMs: 10_000,
  slowAnswerMs: 120_000,
  keepaliveMs: 15_000,
  reattachMs: 10_000,
  frozenMs: 600_000,
  endGraceMs: 10_000,
};
