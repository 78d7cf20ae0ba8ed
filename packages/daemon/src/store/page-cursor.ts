/** Where a page of a list ended, as a text that callers hand back unread. */
import { SandboxError } from "@sandkasten/protocol";

/** The place of a row in a list: what it has in the columns by which the list is sorted. */
export type ListPosition = readonly (number | string)[];

export function encodeCursor(position: ListPosition): string {
  return Buffer.from(JSON.stringify(position)).toString("base64url");
}

/** Refuses a position that is not of the same kind as `like`. */
export function decodeCursor(cursor: string, like: readonly ("number" | "string")[]): ListPosition {
  let position: unknown;
  try {
    position = JSON.parse(Buffer.from(cursor, "base64url").toString());
  } catch (cause) {
    throw notACursor(cause);
  }
  const isAlike =
    Array.isArray(position) &&
    position.length === like.length &&
    like.every((kind, index) => typeof (position as unknown[])[index] === kind);
  if (!isAlike) throw notACursor();
  return position as ListPosition;
}

function notACursor(cause?: unknown): SandboxError {
  return new SandboxError(
    "INVALID_REQUEST",
    "The cursor is not one that a page of this list was answered with; begin without one.",
    { cause },
  );
}
