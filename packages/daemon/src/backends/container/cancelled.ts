/** Handles a create that its caller has cancelled. */
import { SandboxError } from "@sandkasten/protocol";

export function throwIfCancelled(signal: AbortSignal | undefined): void {
  if (signal?.aborted === true)
    throw new SandboxError("CANCELLED", "the sandbox is no longer needed", {
      cause: signal.reason,
    });
}
