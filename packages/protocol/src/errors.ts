/** The one error class of the project and the catalogue of its codes. */

interface CatalogueEntry {
  /** The HTTP status it is answered with. */
  readonly status: number;
  /** Whether the same request may succeed later, unchanged. */
  readonly retryable: boolean;
  readonly meaning: string;
}

/** Every code that leaves the daemon. `docs/reference/errors.md` is made from this table. */
export const ERROR_CATALOGUE = {
  INVALID_REQUEST: {
    status: 400,
    retryable: false,
    meaning: "The request does not have the form that this call expects.",
  },
  INVALID_IMAGE: {
    status: 400,
    retryable: false,
    meaning: "The image is unknown, not present, not allowed, or cannot be used.",
  },
  NOT_A_FILE: {
    status: 400,
    retryable: false,
    meaning: "The path leads to something that is not a regular file.",
  },
  NOT_A_DIRECTORY: {
    status: 400,
    retryable: false,
    meaning: "The path, or a part of it, is not a directory.",
  },
  UNAUTHORIZED: { status: 401, retryable: false, meaning: "The key is missing or not known." },
  PREVIEW_DENIED: {
    status: 401,
    retryable: false,
    meaning: "The preview link is missing, has expired, or is for another port or session.",
  },
  PERMISSION_DENIED: {
    status: 403,
    retryable: false,
    meaning: "The sandbox's user, or the policy, does not allow this.",
  },
  FORBIDDEN: {
    status: 403,
    retryable: false,
    meaning: "The scope of the key does not allow this; a key with another scope may do it.",
  },
  ROUTE_NOT_FOUND: {
    status: 404,
    retryable: false,
    meaning: "The API has nothing at this path for this method.",
  },
  SESSION_NOT_FOUND: { status: 404, retryable: false, meaning: "No session has this id." },
  SANDBOX_NOT_FOUND: {
    status: 404,
    retryable: false,
    meaning: "The backend has no sandbox of this id.",
  },
  EXEC_NOT_FOUND: {
    status: 404,
    retryable: false,
    meaning: "The sandbox knows no command of this id, or no longer.",
  },
  SHELL_NOT_FOUND: {
    status: 404,
    retryable: false,
    meaning: "The sandbox has no shell of this name.",
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
    meaning: "The state of the thing does not allow this now, or the id is taken.",
  },
  FILE_EXISTS: {
    status: 409,
    retryable: false,
    meaning: "The path exists already, or the directory is not empty.",
  },
  NO_SHELL: {
    status: 409,
    retryable: false,
    meaning: "The image has no shell; run a program by its argv instead.",
  },
  SESSION_EXPIRED: {
    status: 410,
    retryable: false,
    meaning: "The session's lease ended and its sandbox is gone.",
  },
  FILE_CHANGED: {
    status: 412,
    retryable: false,
    meaning: "The file is not at the version that the request names. Read it again.",
  },
  PAYLOAD_TOO_LARGE: {
    status: 413,
    retryable: false,
    meaning: "The body, file, archive or name is larger than allowed.",
  },
  QUOTA_EXCEEDED: {
    status: 429,
    retryable: true,
    meaning: "The caller has as many of these as it may have.",
  },
  CANCELLED: { status: 499, retryable: false, meaning: "The caller gave the request up." },
  INTERNAL_ERROR: {
    status: 500,
    retryable: false,
    meaning: "The daemon failed; the log has the cause under the request id.",
  },
  SANDBOX_IO_ERROR: {
    status: 502,
    retryable: false,
    meaning: "The sandbox's system failed at reading or writing.",
  },
  UNSUPPORTED: {
    status: 501,
    retryable: false,
    meaning: "This backend, image or machine cannot do that.",
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
      "What listens on this port does not speak HTTP, or closed the connection before its response was complete.",
  },
  SANDBOX_UNREACHABLE: {
    status: 503,
    retryable: true,
    meaning: "The sandbox did not answer in time, broke the protocol, or is gone.",
  },
  ENGINE_UNREACHABLE: {
    status: 503,
    retryable: true,
    meaning:
      "The container engine does not answer; its sandboxes go on and are there again with it.",
  },
  BACKEND_BUSY: {
    status: 503,
    retryable: true,
    meaning:
      "The backend could not do this now: it was interrupted, or the machine has run out of something. Nothing was left half-done; try again.",
  },
  REGISTRY_UNREACHABLE: {
    status: 503,
    retryable: true,
    meaning: "The registry that has the image does not answer, or not now; nothing was changed.",
  },
  COMMAND_TIMEOUT: {
    status: 504,
    retryable: false,
    meaning: "The command ran longer than allowed and was ended; `details` has what it printed.",
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

/** A failure with a code of the catalogue. The message says what happened, to what, and what to do. */
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
