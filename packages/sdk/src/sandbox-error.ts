/** The one error of the SDK: what the daemon answered, or that none answered. */
import { errorTable } from "./error-table.ts";
import type { ExecResult } from "./exec-types.ts";
import type { ErrorCode } from "./wire-names.ts";

/** A code of the daemon, or `CONNECTION_FAILED` when no daemon answered. */
export type SandboxErrorCode = ErrorCode | "CONNECTION_FAILED";

/** What can be known of a failure beside its code and message. */
export interface SandboxErrorOptions {
  /** The HTTP status, where it differs from the code's own. */
  readonly status?: number | undefined;
  /** Whether the same request may succeed later, where it differs from the code's own. */
  readonly retryable?: boolean | undefined;
  /** What the daemon said about the failure. */
  readonly details?: Readonly<Record<string, unknown>> | undefined;
  /** The daemon's name for the request, to be found in its log. */
  readonly requestId?: string | undefined;
  /** When the daemon asked to come back. */
  readonly retryAfterMs?: number | undefined;
  /** Of a command whose time was up: what it did until then. */
  readonly result?: ExecResult | undefined;
  readonly cause?: unknown;
}

/** A request that failed. The message says what happened, to what, and what to do. */
export class SandboxError extends Error {
  override readonly name = "SandboxError";
  /** What went wrong, for programs. */
  readonly code: SandboxErrorCode;
  /** The HTTP status; 0 if there was no response. */
  readonly status: number;
  /** Whether the same request may succeed later, unchanged. */
  readonly retryable: boolean;
  /** Details of the failure, as the daemon sent them. */
  readonly details: Readonly<Record<string, unknown>> | undefined;
  /** The daemon's name for the request, to be found in its log. */
  readonly requestId: string | undefined;
  /** When the daemon asked to come back. */
  readonly retryAfterMs: number | undefined;
  /** With `COMMAND_TIMEOUT`: what the command did until its time was up. */
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
