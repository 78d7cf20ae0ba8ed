/** How commands end, and what that implies for the sandbox. */
import type { ExecEnd } from "../ports/channel.ts";
import type { ExecRow } from "../ports/session-store.ts";
import type { ExecOutcome } from "../ports/telemetry.ts";

/** Whether the sandbox may be dead, given how one of its commands ended. */
export function isLoss(reason: ExecRow["endReason"]): boolean {
  return reason === "sandbox_gone" || reason === "not_started" || reason === "unknown";
}

/** How a command ended that the sandbox did not report on. */
export type SilentEnd = "sandbox_gone" | "not_started" | "unknown" | "killed" | "cancelled";

export function endWithoutReport(execId: string, reason: SilentEnd): ExecEnd {
  return {
    execId,
    reason,
    durationMs: 0,
    stdoutBytes: 0,
    stderrBytes: 0,
    droppedBytes: 0,
    shellRestarted: false,
    outputOpen: false,
  };
}

/** Undefined for a command that continues under the next daemon. */
export function outcomeOf(row: ExecRow): ExecOutcome | undefined {
  if (row.status !== "done") return undefined;
  return {
    endReason: row.endReason ?? "unknown",
    exitCode: row.exitCode,
    stdoutBytes: row.stdoutBytes,
    stderrBytes: row.stderrBytes,
    durationMs: row.durationMs ?? 0,
  };
}
