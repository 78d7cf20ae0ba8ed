/** What the end of a command says about its sandbox. */
import type { ExecRow } from "../ports/session-store.ts";

/** Whether the sandbox may be dead, given how a command of it ended. */
export function isLoss(reason: ExecRow["endReason"]): boolean {
  return reason === "sandbox_gone" || reason === "not_started" || reason === "unknown";
}
