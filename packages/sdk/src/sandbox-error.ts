/** The SDK's only error: what the daemon returned, or that it did not respond. */
import { errorTable } from "./error-table.ts";
import type { ExecResult } from "./exec-types.ts";
import type { ErrorCode } from "./wire-names.ts";

/** A code of the daemon, or `CONNECTION_FAILED` if it did not respond. */
export type SandboxErrorCode = ErrorCode | "CONNECTION_FAILED";

/** Additional information about a failure. */
export interface SandboxErrorOptions {
  /** The HTTP status, if it differs from the code's. */
  readonly status?: number | undefined;
  /** Whether the same request may succeed later, if it differs from the code's. */
  readonly retryable?: boolean | undefined;
  /** Details of the failure, as the daemon sent them. */
  readonly details?: Readonly<Record<string, unknown>> | undefined;
  /** The request's id in the daemon's log. */
  readonly requestId?: string | undefined;
  /** When the daemon asked to retry. */
  readonly retryAfterMs?: number | undefined;
  /** The result so far of a command that exceeded its timeout. */
  readonly result?: ExecResult | undefined;
  readonly cause?: unknown;
}

/** A request that failed. The message says what happened, to what, and what to do. */
export class SandboxError extends Error {
  override readonly name = "SandboxError";
  /** The error code, for programs. */
  readonly code: SandboxErrorCode;
  /** The HTTP status; 0 if there was no response. */
  readonly status: number;
  /** Whether the same request may succeed later, unchanged. */
  readonly retryable: boolean;
  /** Details of the failure, as the daemon sent them. */
  readonly details: Readonly<Record<string, unknown>> | undefined;
  /** The request's id in the daemon's log. */
  readonly requestId: string | undefined;
  /** When the daemon asked to retry. */
  readonly retryAfterMs: number | undefined;
  /** With `COMMAND_TIMEOUT`: the result so far. */
  readonly result: ExecResult | undefined;

  constructor(code: SandboxErrorCode, message: string, options: SandboxErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    const own = code === "CONNECTION_FAILED" ? { status: 0, retryable: true } : errorTable[code];
    this.code = code;
    this.status = options.status ?? own.status;
    this.retryable = options.retryable ?? own.retryable;
    this.details = options.details;
    this.requestId = options.requestId;
    this.retryAfterMs = options.retryAfterMs;
    this.result = options.result;
  }

  /** The same as `requestId`. */
  get request_id(): string | undefined {
    return this.requestId;
  }

  /** The same as `retryAfterMs`. */
  get retry_after_ms(): number | undefined {
    return this.retryAfterMs;
  }
}
