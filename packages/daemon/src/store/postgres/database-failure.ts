/** Translates errors of Postgres and its connection into errors from the catalogue. */
import { SandboxError } from "@sandkasten/protocol";
import pg from "pg";
import { heldForDead } from "../../ports/lost-ownership.ts";

/** Raised by one of our functions: the calling daemon was declared dead. */
const HELD_FOR_DEAD = "SKDEA";
const DISK_FULL = "53100";
/** Postgres refuses or ends connections: it stops, starts, has too many, or ends this one. */
const CONNECTION_CODES = /^(?:08|57P|53300)/;
/** The driver has no codes for these. */
const CONNECTION_MESSAGES =
  /^(?:Connection terminated|timeout exceeded when trying to connect|Query read timeout|Client has encountered a connection error)/;

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
  if (isConnectionFailure(error, code, message))
    return new SandboxError(
      "DATABASE_UNREACHABLE",
      `The session database did not respond (${doing}). Try again; if it persists, check that Postgres runs.`,
      { cause: error },
    );
  return new SandboxError(
    "INTERNAL_ERROR",
    `The session database failed (${doing}): ${message}. Check database_url and the Postgres log.`,
    { cause: error },
  );
}

function isConnectionFailure(error: unknown, code: string | undefined, message: string): boolean {
  if (error instanceof pg.DatabaseError) return CONNECTION_CODES.test(code ?? "");
  // Errors of sockets and of name resolution. Those of Node itself, ERR_*, are mistakes.
  return /^E(?!RR_)[A-Z]/.test(code ?? "") || CONNECTION_MESSAGES.test(message);
}

function codeOf(error: unknown): string | undefined {
  if (typeof error !== "object" || error === null || !("code" in error)) return undefined;
  return typeof error.code === "string" ? error.code : undefined;
}
