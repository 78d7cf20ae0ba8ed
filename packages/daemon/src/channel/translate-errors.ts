/** Translates errors of runners and connections into errors from the catalogue. */
import { SandboxError } from "@sandkasten/protocol";
import type {
  ErrorCode,
  RunnerError,
  RunnerErrorCode,
  RunnerOperation,
} from "@sandkasten/protocol";
import type { ConnectionFailure } from "./connection-failure.ts";

const MAX_MESSAGE_LENGTH = 1_000;

const CODES: Readonly<Record<RunnerErrorCode, ErrorCode>> = {
  not_found: "FILE_NOT_FOUND",
  exists: "FILE_EXISTS",
  changed: "FILE_CHANGED",
  is_directory: "NOT_A_FILE",
  not_directory: "NOT_A_DIRECTORY",
  not_regular: "NOT_A_FILE",
  permission: "PERMISSION_DENIED",
  no_space: "STORAGE_FULL",
  too_large: "PAYLOAD_TOO_LARGE",
  loop: "INVALID_REQUEST",
  invalid: "INVALID_REQUEST",
  busy: "CONFLICT",
  too_many: "QUOTA_EXCEEDED",
  refused: "PERMISSION_DENIED",
  cancelled: "CANCELLED",
  no_shell: "NO_SHELL",
  unsupported: "UNSUPPORTED",
  io: "SANDBOX_IO_ERROR",
};

/** Operations that name a command: their `not_found` refers to it and not to a file. */
const EXEC_OPERATIONS: ReadonlySet<RunnerOperation> = new Set([
  "attach",
  "signal",
  "cancel",
  "resize",
  "forget",
]);

export function fromRunnerError(op: RunnerOperation, error: RunnerError): SandboxError {
  return new SandboxError(codeFor(op, error.code), printable(error.message), {
    details: { operation: op, reason: error.code },
  });
}

export function fromConnectionFailure(what: string, failure: ConnectionFailure): SandboxError {
  // The dialler may know the cause better, for example an engine that does not respond.
  if (failure.cause instanceof SandboxError) return failure.cause;
  return new SandboxError("SANDBOX_UNREACHABLE", `${what} got no answer: ${failure.message}`, {
    cause: failure,
    details: { reason: failure.kind },
  });
}

export function missedDeadline(op: RunnerOperation): SandboxError {
  return new SandboxError(
    "SANDBOX_UNREACHABLE",
    `the sandbox did not answer ${op} in time; try again, or destroy it if this goes on`,
    {
      details: { operation: op, reason: "deadline" },
    },
  );
}

export function cancelled(what: string, signal?: AbortSignal): SandboxError {
  return new SandboxError("CANCELLED", `${what} was cancelled by its caller`, {
    cause: signal?.reason,
  });
}

function codeFor(op: RunnerOperation, code: RunnerErrorCode): ErrorCode {
  if (code === "not_found" && EXEC_OPERATIONS.has(op)) return "EXEC_NOT_FOUND";
  if (code === "not_found" && op === "close_shell") return "SHELL_NOT_FOUND";
  // The runner of a sandbox that an earlier version created does not know the request.
  if (op === "ports" && code === "invalid") return "UNSUPPORTED";
  if (op === "dial" && (code === "refused" || code === "not_found" || code === "io"))
    return "PORT_REFUSED";
  return CODES[code];
}

/**
 * SECURITY: the text comes from the sandbox and ends up in logs and terminals, so control
 * characters are removed (threat: control characters). Guarded by translate-errors.test.ts.
 */
function printable(message: string): string {
  // Control characters, line separators, and bidirectional overrides.
  return message
    .slice(0, MAX_MESSAGE_LENGTH)
    .replaceAll(/[\p{Cc}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069]/gu, "\ufffd");
}
