/** Validates a runner's message against its schema. */
import { ProtocolError } from "@sandkasten/protocol";

interface Schema<T> {
  safeParse(value: unknown): { success: true; data: T } | { success: false; error: Error };
}

/** Returns the typed message, or throws a `ProtocolError` that names the expected type. */
export function checked<T>(schema: Schema<T>, message: unknown, what: string): T {
  const result = schema.safeParse(message);
  if (result.success) return result.data;
  throw new ProtocolError("bad_message", `the runner's message is not a valid ${what}`, {
    cause: result.error,
  });
}
