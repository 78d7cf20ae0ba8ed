/** Encodes the position after a page of a list as an opaque string. */
import { SandboxError } from "@sandkasten/protocol";

/** A row's position in a list: its values in the sort columns. */
export type ListPosition = readonly (number | string)[];

export function encodeCursor(position: ListPosition): string {
  return Buffer.from(JSON.stringify(position)).toString("base64url");
}

/** Rejects a position whose types differ from `like`. */
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
    "The cursor was not returned by this list; start without a cursor.",
    { cause },
  );
}
