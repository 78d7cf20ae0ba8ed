/** Turns what Postgres and the way to it say into errors of the catalogue. */
import { SandboxError } from "@sandkasten/protocol";
import { heldForDead } from "../../ports/session-store.ts";

/** Raised by a function of ours: the daemon that asks is held for dead. */
const HELD_FOR_DEAD = "SKDEA";
const DISK_FULL = "53100";

export function databaseFailure(error: unknown, doing: string): SandboxError {
  if (error instanceof SandboxError) return error;
  const code = codeOf(error);
  if (code === HELD_FOR_DEAD) return heldForDead(error);
  if (code === DISK_FULL)
    return new SandboxError(
      "STORAGE_FULL",
      `The disk of the database is full (${doing}). End sessions that are not needed, or give the database more room.`,
      { cause: error },
    );
  const message = error instanceof Error ? error.message : String(error);
  return new SandboxError(
    "INTERNAL_ERROR",
    `The database of sessions failed (${doing}): ${message}. Look at database_url, and at the log of Postgres.`,
    { cause: error },
  );
}

function codeOf(error: unknown): string | undefined {
  if (typeof error !== "object" || error === null || !("code" in error)) return undefined;
  return typeof error.code === "string" ? error.code : undefined;
}
