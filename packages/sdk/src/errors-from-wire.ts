/** Rebuilds the daemon's errors from its responses. */
import type { ErrorBody, ExecResultBody } from "@sandkasten/protocol";
import { errorTable, isErrorCode } from "./error-table.ts";
import { type ExecResult, toExecResult } from "./exec-types.ts";
import { parseRetryAfter } from "./retry.ts";
import { SandboxError, type SandboxErrorOptions } from "./sandbox-error.ts";
import type { ErrorCode } from "./wire-names.ts";

/** Fallbacks for an unknown code: from a newer daemon, or from a proxy. */
const codesByStatus: Readonly<Partial<Record<number, ErrorCode>>> = {
  401: "UNAUTHORIZED",
  403: "PERMISSION_DENIED",
  409: "CONFLICT",
  413: "PAYLOAD_TOO_LARGE",
  429: "QUOTA_EXCEEDED",
  501: "UNSUPPORTED",
  507: "STORAGE_FULL",
};

/** Statuses of a proxy that got no response itself. */
const gatewayStatuses: ReadonlySet<number> = new Set([502, 503, 504]);

function codeForStatus(status: number): ErrorCode {
  return codesByStatus[status] ?? (status >= 500 ? "INTERNAL_ERROR" : "INVALID_REQUEST");
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isErrorBody(value: unknown): value is Partial<ErrorBody> & Pick<ErrorBody, "error_code"> {
  return isObject(value) && typeof value["error_code"] === "string";
}

/** If a command failed, the details are its result. */
function resultInDetails(details: unknown): ExecResult | undefined {
  if (!isObject(details) || typeof details["exec_id"] !== "string") return undefined;
  if (typeof details["output"] !== "string") return undefined;
  return toExecResult(details as unknown as ExecResultBody);
}

/** The error for a body of the form `{error_code, message, details, request_id}`. */
export function errorFromBody(
  body: unknown,
  answer: Pick<SandboxErrorOptions, "status" | "requestId" | "retryAfterMs"> = {},
): SandboxError {
  if (!isErrorBody(body)) return errorWithoutBody(answer.status ?? 500, answer);
  const { error_code: word } = body;
  const code = isErrorCode(word) ? word : codeForStatus(answer.status ?? 500);
  const message = body.message ?? `The daemon answered ${word}.`;
  return new SandboxError(code, message, {
    ...answer,
    status: answer.status ?? errorTable[code].status,
    requestId: body.request_id ?? answer.requestId,
    details: code === word ? body.details : { ...body.details, error_code: word },
    result: resultInDetails(body.details),
  });
}

function errorWithoutBody(status: number, answer: SandboxErrorOptions): SandboxError {
  if (gatewayStatuses.has(status)) {
    const message = `The daemon did not respond: a proxy returned status ${status}.`;
    return new SandboxError("CONNECTION_FAILED", message, answer);
  }
  const message = `The response was ${status} without a reason; check that this is the address of a Sandkasten daemon.`;
  return new SandboxError(codeForStatus(status), message, answer);
}

async function jsonOf(response: Response): Promise<unknown> {
  try {
    return await response.json();
  } catch {
    // The status says more than a truncated body or a proxy's page.
    return undefined;
  }
}

/** The error for an unsuccessful response. */
export async function errorFromResponse(response: Response): Promise<SandboxError> {
  // A browser hides a redirect's target and status.
  if (response.type === "opaqueredirect" || (response.status >= 300 && response.status < 400)) {
    await response.body?.cancel();
    const message = "The address redirects elsewhere; use the redirect's target as baseUrl.";
    return new SandboxError("CONNECTION_FAILED", message, {
      status: response.status,
      retryable: false,
    });
  }
  return errorFromBody(await jsonOf(response), {
    status: response.status,
    requestId: response.headers.get("x-request-id") ?? undefined,
    retryAfterMs: parseRetryAfter(response.headers.get("retry-after"), Date.now()),
  });
}

/** Wraps whatever `fetch` threw. */
export function connectionFailed(what: string, cause: unknown): SandboxError {
  if (cause instanceof SandboxError) return cause;
  const message = `${what} failed: ${reasonOf(cause)}. Check that the daemon is running at this address.`;
  return new SandboxError("CONNECTION_FAILED", message, { cause });
}

/** Runtimes put the reason in different places. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const inner = error.cause;
  if (inner instanceof Error && inner.message !== "") return inner.message;
  if (isObject(inner) && typeof inner["code"] === "string") return inner["code"];
  return error.message;
}
