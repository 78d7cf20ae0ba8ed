/** The error that a model sees: what went wrong, and what it can do next. */
import { SandboxError } from "@sandkasten/sdk";
import type { SandboxErrorCode } from "@sandkasten/sdk";

/** What went wrong, for programs. */
export type ToolErrorCode =
  | "INVALID_INPUT"
  | "SANDBOX_NOT_FOUND"
  | "EXEC_NOT_FOUND"
  | "FILE_NOT_FOUND"
  | "FILE_EXISTS"
  | "NOT_A_FILE"
  | "NOT_A_DIRECTORY"
  | "CONFLICT"
  | "REFUSED"
  | "LIMIT_EXCEEDED"
  | "CANCELLED"
  | "SANDBOX_FAILED";

/** A tool call that failed. The message is written for a model: what happened, then what to do. */
export class ToolError extends Error {
  override readonly name = "ToolError";
  readonly code: ToolErrorCode;

  constructor(code: ToolErrorCode, message: string, options: { readonly cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
  }
}

const codes: Readonly<Partial<Record<SandboxErrorCode, ToolErrorCode>>> = {
  INVALID_REQUEST: "INVALID_INPUT",
  INVALID_IMAGE: "INVALID_INPUT",
  NOT_A_FILE: "NOT_A_FILE",
  NOT_A_DIRECTORY: "NOT_A_DIRECTORY",
  PERMISSION_DENIED: "REFUSED",
  FORBIDDEN: "REFUSED",
  UNSUPPORTED: "REFUSED",
  SESSION_NOT_FOUND: "SANDBOX_NOT_FOUND",
  SANDBOX_NOT_FOUND: "SANDBOX_NOT_FOUND",
  SESSION_EXPIRED: "SANDBOX_NOT_FOUND",
  EXEC_NOT_FOUND: "EXEC_NOT_FOUND",
  FILE_NOT_FOUND: "FILE_NOT_FOUND",
  FILE_EXISTS: "FILE_EXISTS",
  CONFLICT: "CONFLICT",
  PAYLOAD_TOO_LARGE: "LIMIT_EXCEEDED",
  QUOTA_EXCEEDED: "LIMIT_EXCEEDED",
  STORAGE_FULL: "LIMIT_EXCEEDED",
  CANCELLED: "CANCELLED",
};

/**
 * Converts any failure to a ToolError. An aborted call is `CANCELLED`, whatever the failure was.
 */
export function toToolError(error: unknown, signal?: AbortSignal): ToolError {
  if (signal?.aborted === true)
    return new ToolError("CANCELLED", "The call was cancelled.", { cause: error });
  if (error instanceof ToolError) return error;
  if (!(error instanceof SandboxError))
    return new ToolError("SANDBOX_FAILED", String(error), { cause: error });
  return new ToolError(codes[error.code] ?? "SANDBOX_FAILED", error.message, { cause: error });
}
