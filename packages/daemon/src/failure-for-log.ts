/** What the log may contain about an error. */
import { SandboxError } from "@sandkasten/protocol";

interface FailureForLog {
  readonly type: string;
  readonly message: string;
  readonly code?: string;
  readonly stack?: string;
  readonly cause?: FailureForLog;
}

/**
 * SECURITY: excludes the error's details, which can be what a command printed, and the runner's
 * message, which names files of the sandbox. Guarded by native-errors.test.ts.
 */
export function failureForLog(error: unknown, depth = 0): FailureForLog {
  if (!(error instanceof Error)) return { type: typeof error, message: String(error) };
  const message = runnerFailure(error) ?? error.message;
  return {
    type: error.name,
    message,
    ...("code" in error && typeof error.code === "string" && { code: error.code }),
    ...(error.stack !== undefined && { stack: error.stack.replace(error.message, message) }),
    ...(error.cause !== undefined && depth < 5 && { cause: failureForLog(error.cause, depth + 1) }),
  };
}

/** What failed inside a sandbox, without the sandbox's wording. */
function runnerFailure(error: Error): string | undefined {
  if (!(error instanceof SandboxError)) return undefined;
  const { operation, reason } = error.details ?? {};
  return typeof operation === "string" && typeof reason === "string"
    ? `${operation} failed in the sandbox: ${reason}`
    : undefined;
}
