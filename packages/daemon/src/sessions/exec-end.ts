/** What a command's end implies for its sandbox. */
import type { ExecRow } from "../ports/session-store.ts";

/** Whether the sandbox may be dead, given how one of its commands ended. */
export function isLoss(reason: ExecRow["endReason"]): boolean {
  return reason === "sandbox_gone" || reason === "not_started" || reason === "unknown";
}
