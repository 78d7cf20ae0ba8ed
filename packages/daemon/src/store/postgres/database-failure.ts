/** Translates errors of Postgres and its connection into errors from the catalogue. */
import { SandboxError } from "@sandkasten/protocol";
import { heldForDead } from "../../ports/lost-ownership.ts";

/** Raised by one of our functions: the calling daemon was declared dead. */
const HELD_FOR_DEAD = "SKDEA";
const DISK_FULL = "53100";

export function databaseFailure(error: unknown, doing: string): SandboxError {
  if (error instanceof SandboxError) return error;
  const code = codeOf(error);
  if (code === HELD_FOR_DEAD) return heldForDead(error);
  if (code === DISK_FULL)
    return new SandboxError(
      "STORAGE_FULL",
      `The disk of the database is full (${doing}). Destroy unused sessions, or give the database more space.`,
      { cause: error },
    );
  const message = error instanceof Error ? error.message : String(error);
  return new SandboxError(
    "INTERNAL_ERROR",
    `The session database failed (${doing}): ${message}. Check database_url and the Postgres log.`,
    { cause: error },
  );
}

function codeOf(error: unknown): string | undefined {
  if (typeof error !== "object" || error === null || !("code" in error)) return undefined;
  return typeof error.code === "string" ? error.code : undefined;
}
