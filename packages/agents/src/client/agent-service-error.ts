/** The errors that the client throws: the service refused a request, or cannot be reached. */

export interface AgentServiceErrorOptions {
  readonly status?: number | undefined;
  readonly details?: Readonly<Record<string, unknown>> | undefined;
  readonly requestId?: string | undefined;
  readonly cause?: unknown;
}

export class AgentServiceError extends Error {
  override readonly name = "AgentServiceError";
  /** The `error_code` of the response, or `CONNECTION_FAILED`. */
  readonly code: string;
  readonly status: number | undefined;
  readonly details: Readonly<Record<string, unknown>> | undefined;
  readonly requestId: string | undefined;

  constructor(code: string, message: string, options: AgentServiceErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.status = options.status;
    this.details = options.details;
    this.requestId = options.requestId;
  }
}

export function connectionFailed(url: string, cause: unknown): AgentServiceError {
  const reason = cause instanceof Error ? innermost(cause).message || cause.message : String(cause);
  return new AgentServiceError(
    "CONNECTION_FAILED",
    `The agent service at ${url} does not answer (${reason}). Start it with \`sandkasten agents serve\`.`,
    { cause },
  );
}

/** `fetch failed` says nothing; its cause does. */
function innermost(error: Error): Error {
  return error.cause instanceof Error ? innermost(error.cause) : error;
}

export async function errorFromAnswer(response: Response): Promise<AgentServiceError> {
  const text = await response.text();
  const body = parsed(text);
  const { error_code: code, message, details, request_id: requestId } = body;
  if (typeof code !== "string" || typeof message !== "string")
    return new AgentServiceError(
      "UNEXPECTED_ANSWER",
      `The server at ${response.url} is not the agent service; it answered ${response.status}.`,
      { status: response.status },
    );
  return new AgentServiceError(code, message, {
    status: response.status,
    ...(typeof details === "object" &&
      details !== null && { details: details as Readonly<Record<string, unknown>> }),
    ...(typeof requestId === "string" && { requestId }),
  });
}

function parsed(text: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null
      ? (value as Readonly<Record<string, unknown>>)
      : {};
  } catch {
    return {};
  }
}
