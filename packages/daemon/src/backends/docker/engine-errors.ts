/** Translates failures of a Docker engine into errors from the catalogue. */
import { SandboxError } from "@sandkasten/protocol";

/** An error response of the engine. */
export interface EngineRefusal {
  readonly status: number;
  /** The engine's message, without the client library's prefix. */
  readonly message: string;
}

/** Statuses of a proxy that cannot reach the engine, or of an engine that is stopping. */
const NOT_THERE: ReadonlySet<number> = new Set([502, 503, 504]);
const MAX_MESSAGE_CHARS = 500;
/** The codes of Node and OpenSSL for a refused certificate or handshake. */
const TLS_FAILURE =
  /^(?:ERR_TLS|ERR_SSL|CERT_|UNABLE_TO_|SELF_SIGNED|DEPTH_ZERO|INVALID_CA|INVALID_PURPOSE)/u;

/** The engine's refusal, if this is one: the engine was then reached, and refused. */
export function engineRefusal(error: unknown): EngineRefusal | undefined {
  if (!(error instanceof Error) || !("statusCode" in error)) return undefined;
  const { statusCode } = error;
  if (typeof statusCode !== "number" || NOT_THERE.has(statusCode)) return undefined;
  const message = error.message.replace(/^\(HTTP code \d+\) (?:[a-z0-9/ ]+ - )?/, "");
  return { status: statusCode, message: message.trim().slice(0, MAX_MESSAGE_CHARS) };
}

/**
 * Translates a rejected call to the engine. Without a response the engine counts as unreachable:
 * whether it is down, the socket is missing, or TLS or ssh failed.
 *
 * @param doing - The step, as in "creating the container".
 */
export function engineFailure(error: unknown, doing: string): SandboxError {
  if (error instanceof SandboxError) return error;
  const refusal = engineRefusal(error);
  if (refusal === undefined) return engineUnreachable(doing, error);
  const { status, message } = refusal;
  if (message.includes("HTTP request to an HTTPS server"))
    return new SandboxError(
      "ENGINE_UNREACHABLE",
      `The Docker engine requires TLS (${doing}). Set docker.cert_path to a directory with ca.pem, cert.pem and key.pem.`,
      { cause: error },
    );
  if (message.includes("no space left on device"))
    return new SandboxError("STORAGE_FULL", `The Docker engine's disk is full (${doing}).`, {
      cause: error,
    });
  return new SandboxError(
    "INTERNAL_ERROR",
    `The Docker engine failed (${doing}): ${message || `status ${status}`}`,
    { cause: error },
  );
}

export function engineUnreachable(doing: string, cause?: unknown): SandboxError {
  const reason = reasonOf(cause);
  if (TLS_FAILURE.test(reason))
    return new SandboxError(
      "ENGINE_UNREACHABLE",
      `The TLS connection to the Docker engine failed (${doing}): ${reason}. Check the certificates in docker.cert_path and those of the engine.`,
      { cause },
    );
  return new SandboxError(
    "ENGINE_UNREACHABLE",
    `The Docker engine does not respond (${doing})${reason === "" ? "" : `: ${reason}`}. Try again when it is running; its containers and volumes are kept.`,
    { cause },
  );
}

/** The errno name if there is one: messages contain sockets and addresses, which only the operator may see. */
function reasonOf(cause: unknown): string {
  if (!(cause instanceof Error)) return "";
  return "code" in cause && typeof cause.code === "string" ? cause.code : "";
}

/** What the engine's refusal of a new container means. */
export function creationRefusal(
  { status, message }: EngineRefusal,
  cause: unknown,
): SandboxError | undefined {
  if (status === 409)
    return new SandboxError("CONFLICT", `the sandbox already exists: ${message}`, { cause });
  if (status === 404 && /no such image/iu.test(message))
    return new SandboxError("INVALID_IMAGE", `The engine has lost the image: ${message}`, {
      cause,
    });
  return networkRefusal(message, cause);
}

/** Some engines check a container's network on creation, others on start. */
function networkRefusal(message: string, cause: unknown): SandboxError | undefined {
  if (!/network .*not found/iu.test(message)) return undefined;
  return new SandboxError(
    "UNSUPPORTED",
    `The engine does not have the configured sandbox network: ${message}. Create it, or change docker.network.`,
    { cause },
  );
}

/** What the engine's refusal to start a container means. */
export function startRefusal({ message }: EngineRefusal, cause: unknown): SandboxError | undefined {
  if (/exec format error|invalid argument: unknown|unknown runtime/iu.test(message))
    return new SandboxError(
      "UNSUPPORTED",
      `The engine cannot run sandboxes (starting the container): ${message}`,
      { cause },
    );
  return networkRefusal(message, cause);
}
