/** Checks the ids of sessions and commands before they become directory names. */
import { SandboxError } from "@sandkasten/protocol";

const ID = /^[A-Za-z0-9_-]{1,128}$/u;

export function isJournalId(id: string): boolean {
  return ID.test(id);
}

/**
 * SECURITY: an id becomes a directory that is written to and removed recursively, so an id that
 * could name another place is refused before any path is built (threat: hostile names). Guarded by
 * file-exec-journal.test.ts.
 */
export function requireJournalId(what: "session" | "command", id: string): void {
  if (isJournalId(id)) return;
  throw new SandboxError(
    "INVALID_REQUEST",
    `The ${what} id ${JSON.stringify(id.slice(0, 40))} is invalid. An id has 1 to 128 letters, digits, dashes or underscores.`,
  );
}
