/** How long a command may run. */
import type { ExecCommand } from "../ports/channel.ts";

/** The effective timeout; absent for a terminal without one, which lives as long as its session. */
export interface EffectiveTimeout {
  readonly timeoutMs?: number;
  /** The request asked for more than the administrator allows. */
  readonly timeoutClamped: boolean;
}

export function effectiveTimeout(
  command: ExecCommand,
  askedMs: number | undefined,
  maxMs: number,
): EffectiveTimeout {
  const isTerminal = command.kind === "process" && command.pty !== undefined;
  if (askedMs === undefined || askedMs === 0)
    return isTerminal ? { timeoutClamped: false } : { timeoutMs: maxMs, timeoutClamped: false };
  return { timeoutMs: Math.min(askedMs, maxMs), timeoutClamped: askedMs > maxMs };
}
