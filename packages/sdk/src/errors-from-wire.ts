/** Rebuilds the daemon's errors from what it sent. */
import type { ErrorBody, ExecResultBody } from "@sandkasten/protocol";
import { errorTable, isErrorCode } from "./error-table.ts";
import { type ExecResult, toExecResult } from "./exec-types.ts";
import { parseRetryAfter } from "./retry.ts";
import { SandboxError, type SandboxErrorOptions } from "./sandbox-error.ts";
import type { ErrorCode } from "./wire-names.ts";

/** What stands in for a code that is not known: of a newer daemon, or of a proxy before it. */
const codesByStatus: Readonly<Partial<Record<number, ErrorCode>>> = {
  401: "UNAUTHORIZED",
  403: "PERMISSION_DENIED",
  409: "CONFLICT",
  413: "PAYLOAD_TOO_LARGE",
  429: "QUOTA_EXCEEDED",
  501: "UNSUPPORTED",
  507: "STORAGE_FULL",
};

/** What a proxy answers that did not get an answer itself. */
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

/** Where a command is what failed, the details are its result. */
function resultInDetails(details: unknown): ExecResult | undefined {
  if (!isObject(details) || typeof details["exec_id"] !== "string") return undefined;
  if (typeof details["output"] !== "string") return undefined;
  return toExecResult(details as unknown as ExecResultBody);
}

/** The error that a body of the form `{error_code, message, details, request_id}` describes. */
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
    const message = `No daemon answered: something between it and here said ${status}.`;
    return new SandboxError("CONNECTION_FAILED", message, answer);
  }
  const message = `The answer was ${status} without a reason; is this the address of a Sandkasten daemon?`;
  return new SandboxError(codeForStatus(status), message, answer);
}

async function jsonOf(response: Response): Promise<unknown> {
  try {
    return await response.json();
  } catch {
    // The status is known, and says more than a body that broke off or that is a proxy's page.
    return undefined;
  }
}

/** The error that an answer other than success stands for. */
export async function errorFromResponse(response: Response): Promise<SandboxError> {
  // A browser hides where a redirect leads, and its status with it.
  if (response.type === "opaqueredirect" || (response.status >= 300 && response.status < 400)) {
    await response.body?.cancel();
    const message = "The address leads elsewhere; use the one that it leads to as baseUrl.";
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

/** Whatever `fetch` threw, as an error that says so. */
export function connectionFailed(what: string, cause: unknown): SandboxError {
  if (cause instanceof SandboxError) return cause;
  const message = `${what} failed: ${reasonOf(cause)}. Check that the daemon runs at this address.`;
  return new SandboxError("CONNECTION_FAILED", message, { cause });
}

/** Runtimes hide the reason in different places. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const inner = error.cause;
  if (inner instanceof Error && inner.message !== "") return inner.message;
  if (isObject(inner) && typeof inner["code"] === "string") return inner["code"];
  return error.message;
}
