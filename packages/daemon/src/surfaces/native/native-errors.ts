/** Converts any thrown error to what a client may learn about it. */
import { ERROR_CATALOGUE, SandboxError } from "@sandkasten/protocol";
import type { ErrorBody, ErrorCode } from "@sandkasten/protocol";
import type { ErrorFormat, ErrorResponse } from "../http/error-format.ts";

interface NativeErrorResponse extends ErrorResponse {
  readonly body: ErrorBody;
}

/** Their messages describe the daemon's internals. */
const HIDDEN_CODES: ReadonlySet<ErrorCode> = new Set(["INTERNAL_ERROR"]);
/** Their details are a command's result, which belongs to the client and stays unchanged. */
const RESULT_CODES: ReadonlySet<ErrorCode> = new Set(["COMMAND_TIMEOUT", "SANDBOX_UNREACHABLE"]);

/** Creates error responses without paths of the host. */
export class NativeErrors implements ErrorFormat {
  readonly #hostPath: RegExp | undefined;

  constructor(hostPaths: readonly string[]) {
    const prefixes = hostPaths
      .filter((path) => path.length > 1)
      .map((path) => path.replaceAll(/[\\^$.*+?()[\]{}|/]/g, String.raw`\$&`));
    if (prefixes.length > 0)
      this.#hostPath = new RegExp(String.raw`(?:${prefixes.join("|")})[^\s"'\x60:;,)]*`, "g");
  }

  /**
   * SECURITY: only errors from the catalogue are meant for clients. All others, and those that the
   * catalogue calls internal, become a sentence without the cause; paths of the daemon's own
   * directories are removed from every message. Guarded by native-errors.test.ts.
   */
  of(error: unknown, requestId: string): NativeErrorResponse {
    const known = error instanceof SandboxError ? error : fromFramework(error);
    if (known === undefined || HIDDEN_CODES.has(known.code)) {
      const code = known?.code ?? "INTERNAL_ERROR";
      const { status, retryable, meaning } = ERROR_CATALOGUE[code];
      const message = `${meaning.replace(/\.$/, "")} (${requestId})`;
      return {
        status,
        code,
        message,
        retryable,
        body: { error_code: code, message, request_id: requestId },
        hidden: true,
      };
    }
    const { code, details, status, retryable } = known;
    const message = this.#withoutHostPaths(known.message);
    return {
      status,
      code,
      message,
      retryable,
      body: {
        error_code: code,
        message,
        ...(details !== undefined && { details: this.#shown(code, details) }),
        request_id: requestId,
      },
      hidden: false,
    };
  }

  #shown(
    code: ErrorCode,
    details: Readonly<Record<string, unknown>>,
  ): Readonly<Record<string, unknown>> {
    if (this.#hostPath === undefined || RESULT_CODES.has(code)) return details;
    return Object.fromEntries(
      Object.entries(details).map(([name, value]) => [
        name,
        typeof value === "string" ? this.#withoutHostPaths(value) : value,
      ]),
    );
  }

  #withoutHostPaths(text: string): string {
    return this.#hostPath === undefined
      ? text
      : text.replaceAll(this.#hostPath, "(a path of the daemon)");
  }
}

/** Errors of Fastify and its plugins. Their messages reveal no internals. */
function fromFramework(error: unknown): SandboxError | undefined {
  if (!(error instanceof Error) || !("code" in error) || !("statusCode" in error)) return undefined;
  const { code, statusCode } = error;
  if (typeof code !== "string" || !code.startsWith("FST_")) return undefined;
  if (statusCode === 413)
    return new SandboxError("PAYLOAD_TOO_LARGE", "the body is larger than allowed", {
      cause: error,
    });
  if (typeof statusCode !== "number" || statusCode < 400 || statusCode > 499) return undefined;
  return new SandboxError(
    "INVALID_REQUEST",
    FRAMEWORK_MESSAGES[code] ?? "the request is malformed",
    {
      cause: error,
    },
  );
}

const FRAMEWORK_MESSAGES: Readonly<Record<string, string>> = {
  FST_ERR_BAD_URL: "the path of the URL is not encoded correctly",
  FST_ERR_CTP_INVALID_JSON_BODY: "the body is not valid JSON",
  FST_INVALID_MULTIPART_CONTENT_TYPE:
    "the body must be a form (Content-Type: multipart/form-data) with a field `file`",
  FST_MP_PREMATURE_CLOSE: "the body ended before the form was complete",
};
