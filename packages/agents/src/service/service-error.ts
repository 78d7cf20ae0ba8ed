/** The errors that the agent service returns. */

const CODES = {
  INVALID_REQUEST: 400,
  UNAUTHORIZED: 401,
  PERMISSION_DENIED: 403,
  ROUTE_NOT_FOUND: 404,
  AGENT_NOT_FOUND: 404,
  WORKFLOW_NOT_FOUND: 404,
  RUN_NOT_FOUND: 404,
  CONFLICT: 409,
  PAYLOAD_TOO_LARGE: 413,
  UNSUPPORTED_MEDIA_TYPE: 415,
  TOO_MANY_RUNS: 429,
  INTERNAL_ERROR: 500,
  SHUTTING_DOWN: 503,
} as const;

export type ServiceErrorCode = keyof typeof CODES;

/** An error that the client may read. The message says what happened and what to do. */
export class ServiceError extends Error {
  override readonly name = "ServiceError";
  readonly code: ServiceErrorCode;
  readonly status: number;
  readonly details: Readonly<Record<string, unknown>> | undefined;

  constructor(
    code: ServiceErrorCode,
    message: string,
    details?: Readonly<Record<string, unknown>>,
  ) {
    super(message);
    this.code = code;
    this.status = CODES[code];
    this.details = details;
  }
}
