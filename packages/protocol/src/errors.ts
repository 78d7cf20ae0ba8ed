/** The project's only error class and the catalogue of its codes. */

interface CatalogueEntry {
  /** The HTTP status of the response. */
  readonly status: number;
  /** Whether the same request may succeed later, unchanged. */
  readonly retryable: boolean;
  readonly meaning: string;
}

/** Every code that leaves the daemon. `docs/reference/errors.md` is generated from this table. */
export const ERROR_CATALOGUE = {
  INVALID_REQUEST: {
    status: 400,
    retryable: false,
    meaning: "The request is invalid.",
  },
  INVALID_IMAGE: {
    status: 400,
    retryable: false,
    meaning: "The image does not exist, is not local, is not allowed, or cannot be used.",
  },
  NOT_A_FILE: {
    status: 400,
    retryable: false,
    meaning: "The path is not a regular file.",
  },
  NOT_A_DIRECTORY: {
    status: 400,
    retryable: false,
    meaning: "The path, or a part of it, is not a directory.",
  },
  UNAUTHORIZED: { status: 401, retryable: false, meaning: "The key is missing or invalid." },
  PREVIEW_DENIED: {
    status: 401,
    retryable: false,
    meaning: "The preview link is missing, has expired, or is for another port or session.",
  },
  PERMISSION_DENIED: {
    status: 403,
    retryable: false,
    meaning: "The sandbox's user or the policy does not allow this.",
  },
  FORBIDDEN: {
    status: 403,
    retryable: false,
    meaning: "The key's scope does not allow this. Use a key with another scope.",
  },
  ROUTE_NOT_FOUND: {
    status: 404,
    retryable: false,
    meaning: "The API has no such path, or not for this method.",
  },
  SESSION_NOT_FOUND: { status: 404, retryable: false, meaning: "No session has this id." },
  SANDBOX_NOT_FOUND: {
    status: 404,
    retryable: false,
    meaning: "The backend has no sandbox with this id.",
  },
  EXEC_NOT_FOUND: {
    status: 404,
    retryable: false,
    meaning: "No command has this id, or it is no longer known.",
  },
  SHELL_NOT_FOUND: {
    status: 404,
    retryable: false,
    meaning: "The sandbox has no shell with this name.",
  },
  KEY_NOT_FOUND: { status: 404, retryable: false, meaning: "No key has this id." },
  FILE_NOT_FOUND: {
    status: 404,
    retryable: false,
    meaning: "The path does not exist in the sandbox.",
  },
  CONFLICT: {
    status: 409,
    retryable: false,
    meaning: "The current state does not allow this, or the id is already in use.",
  },
  FILE_EXISTS: {
    status: 409,
    retryable: false,
    meaning: "The path already exists, or the directory is not empty.",
  },
  NO_SHELL: {
    status: 409,
    retryable: false,
    meaning: "The image has no shell. Pass the command as a list of arguments instead.",
  },
  SESSION_EXPIRED: {
    status: 410,
    retryable: false,
    meaning: "The session has expired, and its sandbox is deleted.",
  },
  FILE_CHANGED: {
    status: 412,
    retryable: false,
    meaning: "The file has changed since the version that the request names. Read it again.",
  },
  PAYLOAD_TOO_LARGE: {
    status: 413,
    retryable: false,
    meaning: "The body, file, archive or name exceeds a limit.",
  },
  QUOTA_EXCEEDED: {
    status: 429,
    retryable: true,
    meaning: "The caller has reached a quota.",
  },
  CANCELLED: { status: 499, retryable: false, meaning: "The caller cancelled the request." },
  INTERNAL_ERROR: {
    status: 500,
    retryable: false,
    meaning: "The daemon failed. Its log has the cause under the request id.",
  },
  SANDBOX_IO_ERROR: {
    status: 502,
    retryable: false,
    meaning: "A read or write failed inside the sandbox.",
  },
  UNSUPPORTED: {
    status: 501,
    retryable: false,
    meaning: "This backend, image or machine does not support this.",
  },
  PORT_REFUSED: {
    status: 502,
    retryable: true,
    meaning: "Nothing listens on this port inside the sandbox.",
  },
  PORT_FAILED: {
    status: 502,
    retryable: false,
    meaning:
      "The server on this port does not speak HTTP, or closed the connection before its response was complete.",
  },
  SANDBOX_UNREACHABLE: {
    status: 503,
    retryable: true,
    meaning: "The sandbox did not respond in time, violated the protocol, or no longer exists.",
  },
  ENGINE_UNREACHABLE: {
    status: 503,
    retryable: true,
    meaning:
      "The container engine does not respond. Its sandboxes keep running and are available again when it does.",
  },
  BACKEND_BUSY: {
    status: 503,
    retryable: true,
    meaning:
      "The backend could not do this now: it was interrupted, or the machine lacks a resource. Nothing was left incomplete. Try again.",
  },
  DATABASE_UNREACHABLE: {
    status: 503,
    retryable: true,
    meaning:
      "The daemon's database does not respond, or closed the connection. Sandboxes and their commands keep running. Try again.",
  },
  REGISTRY_UNREACHABLE: {
    status: 503,
    retryable: true,
    meaning: "The image's registry does not respond. Nothing was changed. Try again later.",
  },
  COMMAND_TIMEOUT: {
    status: 504,
    retryable: false,
    meaning: "The command exceeded its timeout and was killed. `details` has its output.",
  },
  STORAGE_FULL: {
    status: 507,
    retryable: false,
    meaning: "The disk of the sandbox, or of the daemon, is full.",
  },
} as const satisfies Record<string, CatalogueEntry>;

export type ErrorCode = keyof typeof ERROR_CATALOGUE;

export function isErrorCode(value: unknown): value is ErrorCode {
  return typeof value === "string" && Object.hasOwn(ERROR_CATALOGUE, value);
}

export interface SandboxErrorOptions {
  readonly details?: Readonly<Record<string, unknown>>;
  readonly cause?: unknown;
}

/** A failure with a code from the catalogue. The message says what happened, to what, and what to do. */
export class SandboxError extends Error {
  override readonly name = "SandboxError";
  readonly code: ErrorCode;
  readonly status: number;
  readonly retryable: boolean;
  readonly details: Readonly<Record<string, unknown>> | undefined;

  constructor(code: ErrorCode, message: string, options: SandboxErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.status = ERROR_CATALOGUE[code].status;
    this.retryable = ERROR_CATALOGUE[code].retryable;
    this.details = options.details;
  }
}
