/** The errors of a daemon that does not serve a session any more. */
import { SandboxError } from "@sandkasten/protocol";

/** Another daemon serves the session: this one may no longer change it. */
export function lostOwnership(sessionId: string, cause?: unknown): SandboxError {
  return new SandboxError(
    "SANDBOX_UNREACHABLE",
    `session ${sessionId} is now served by another daemon; try again`,
    { details: { reason: "moved" }, cause },
  );
}

/** This daemon missed its heartbeats: others may serve what it served. */
export function heldForDead(cause?: unknown): SandboxError {
  return new SandboxError(
    "SANDBOX_UNREACHABLE",
    "the other daemons declared this one dead after missed heartbeats; try again in a moment",
    { details: { reason: "moved" }, cause },
  );
}

/** Whether something failed because another daemon serves the session. */
export function isLostOwnership(error: unknown): boolean {
  return error instanceof SandboxError && error.details?.["reason"] === "moved";
}
