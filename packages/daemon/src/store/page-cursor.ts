/** Where a page of a list ended, as a text that callers hand back unread. */
import { SandboxError } from "@sandkasten/protocol";

/** The place of a row in a list that is sorted by time and, within it, by id. */
export interface ListPosition {
  readonly atMs: number;
  readonly id: string;
}

export function encodeCursor({ atMs, id }: ListPosition): string {
  return Buffer.from(JSON.stringify([atMs, id])).toString("base64url");
}

export function decodeCursor(cursor: string): ListPosition {
  try {
    const value: unknown = JSON.parse(Buffer.from(cursor, "base64url").toString());
    if (Array.isArray(value) && value.length === 2) {
      const [atMs, id] = value as readonly unknown[];
      if (typeof atMs === "number" && typeof id === "string") return { atMs, id };
    }
  } catch (cause) {
    throw notACursor(cause);
  }
  throw notACursor();
}

function notACursor(cause?: unknown): SandboxError {
  return new SandboxError(
    "INVALID_REQUEST",
    "The cursor is not one that a page of this list was answered with; begin without one.",
    { cause },
  );
}
