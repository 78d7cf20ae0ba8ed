/** The deadlines of a channel to a runner, and their defaults. */

export interface ChannelDeadlines {
  /** From dialling to the runner's HELLO. */
  readonly helloMs: number;
  /** From the last progress of a request that should answer promptly. */
  readonly answerMs: number;
  /** The same for work that may take long without a sign of it: removing trees, flushing large files. */
  readonly slowAnswerMs: number;
  /** Without any frame for so long, while streams are open, the runner is asked whether it lives. */
  readonly keepaliveMs: number;
  /** How long a command's stream tries to come back after its connection was lost, at least: until its own deadline, if that is later. */
  readonly reattachMs: number;
  /** The same for a command without a timeout, whose runner may be frozen and thawed again. */
  readonly frozenMs: number;
  /** How long after a command's own timeout its end is waited for. */
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
