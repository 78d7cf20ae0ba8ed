/** The status and retryability of each error code. */
import type { ERROR_CATALOGUE, ErrorCode } from "@sandkasten/protocol";

/**
 * The catalogue's own values as types: a code that is missing here, that the daemon does not have,
 * or whose status or retryability differs, does not compile.
 */
type KnownErrors = {
  readonly [Code in ErrorCode]: Pick<(typeof ERROR_CATALOGUE)[Code], "status" | "retryable">;
};

export const errorTable: KnownErrors = {
  INVALID_REQUEST: { status: 400, retryable: false },
  INVALID_IMAGE: { status: 400, retryable: false },
  NOT_A_FILE: { status: 400, retryable: false },
  NOT_A_DIRECTORY: { status: 400, retryable: false },
  UNAUTHORIZED: { status: 401, retryable: false },
  PREVIEW_DENIED: { status: 401, retryable: false },
  PERMISSION_DENIED: { status: 403, retryable: false },
  FORBIDDEN: { status: 403, retryable: false },
  ROUTE_NOT_FOUND: { status: 404, retryable: false },
  SESSION_NOT_FOUND: { status: 404, retryable: false },
  SANDBOX_NOT_FOUND: { status: 404, retryable: false },
  EXEC_NOT_FOUND: { status: 404, retryable: false },
  SHELL_NOT_FOUND: { status: 404, retryable: false },
  KEY_NOT_FOUND: { status: 404, retryable: false },
  FILE_NOT_FOUND: { status: 404, retryable: false },
  CONFLICT: { status: 409, retryable: false },
  FILE_EXISTS: { status: 409, retryable: false },
  NO_SHELL: { status: 409, retryable: false },
  SESSION_EXPIRED: { status: 410, retryable: false },
  FILE_CHANGED: { status: 412, retryable: false },
  PAYLOAD_TOO_LARGE: { status: 413, retryable: false },
  QUOTA_EXCEEDED: { status: 429, retryable: true },
  CANCELLED: { status: 499, retryable: false },
  INTERNAL_ERROR: { status: 500, retryable: false },
  SANDBOX_IO_ERROR: { status: 502, retryable: false },
  UNSUPPORTED: { status: 501, retryable: false },
  PORT_REFUSED: { status: 502, retryable: true },
  PORT_FAILED: { status: 502, retryable: false },
  SANDBOX_UNREACHABLE: { status: 503, retryable: true },
  ENGINE_UNREACHABLE: { status: 503, retryable: true },
  BACKEND_BUSY: { status: 503, retryable: true },
  DATABASE_UNREACHABLE: { status: 503, retryable: true },
  REGISTRY_UNREACHABLE: { status: 503, retryable: true },
  COMMAND_TIMEOUT: { status: 504, retryable: false },
  STORAGE_FULL: { status: 507, retryable: false },
};

export function isErrorCode(value: unknown): value is ErrorCode {
  return typeof value === "string" && Object.hasOwn(errorTable, value);
}
