/** Checks a message of the runner against its schema. */
import { ProtocolError } from "@sandkasten/protocol";

interface Schema<T> {
  safeParse(value: unknown): { success: true; data: T } | { success: false; error: Error };
}

/** The message in our types, or a `ProtocolError` that names what it should have been. */
export function checked<T>(schema: Schema<T>, message: unknown, what: string): T {
  const result = schema.safeParse(message);
  if (result.success) return result.data;
  throw new ProtocolError("bad_message", `a message of the runner is not a valid ${what}`, {
    cause: result.error,
  });
}
