/** What becomes of a create whose caller has given up. */
import { SandboxError } from "@sandkasten/protocol";

export function throwIfCancelled(signal: AbortSignal | undefined): void {
  if (signal?.aborted === true)
    throw new SandboxError("CANCELLED", "the sandbox is no longer wanted", {
      cause: signal.reason,
    });
}
