/** Turns what goes wrong between us and a Docker engine into errors of the catalogue. */
import { SandboxError } from "@sandkasten/protocol";

/** What the engine answered instead of what was asked for. */
export interface EngineRefusal {
  readonly status: number;
  /** In the engine's own words, without the client library's frame. */
  readonly message: string;
}

/** Statuses of something between us and the engine that cannot reach it, or of an engine that is stopping. */
const NOT_THERE: ReadonlySet<number> = new Set([502, 503, 504]);
const MAX_MESSAGE_CHARS = 500;
/** The codes that Node and OpenSSL have for a certificate or a handshake that is refused. */
const TLS_FAILURE =
  /^(?:ERR_TLS|ERR_SSL|CERT_|UNABLE_TO_|SELF_SIGNED|DEPTH_ZERO|INVALID_CA|INVALID_PURPOSE)/u;

/** The engine's refusal, if this is one: then it was reached, and said no. */
export function engineRefusal(error: unknown): EngineRefusal | undefined {
  if (!(error instanceof Error) || !("statusCode" in error)) return undefined;
  const { statusCode } = error;
  if (typeof statusCode !== "number" || NOT_THERE.has(statusCode)) return undefined;
  const message = error.message.replace(/^\(HTTP code \d+\) (?:[a-z0-9/ ]+ - )?/, "");
  return { status: statusCode, message: message.trim().slice(0, MAX_MESSAGE_CHARS) };
}

/**
 * Translates what a call to the engine rejected with. Without an answer the engine counts as
 * unreachable: whether it is down, the socket is missing, or TLS or ssh did not come about.
 *
 * @param doing - The stage, as in "creating the container".
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
    `The Docker engine does not answer (${doing})${reason === "" ? "" : `: ${reason}`}. Try again when it runs; what it has stays there.`,
    { cause },
  );
}

/** The errno name where there is one: messages name sockets and addresses, which are the operator's. */
function reasonOf(cause: unknown): string {
  if (!(cause instanceof Error)) return "";
  return "code" in cause && typeof cause.code === "string" ? cause.code : "";
}

/** What the engine's no to a new container means. */
export function creationRefusal(
  { status, message }: EngineRefusal,
  cause: unknown,
): SandboxError | undefined {
  if (status === 409)
    return new SandboxError("CONFLICT", `the sandbox exists already: ${message}`, { cause });
  if (status === 404 && /no such image/iu.test(message))
    return new SandboxError("INVALID_IMAGE", `The engine has lost the image: ${message}`, {
      cause,
    });
  return networkRefusal(message, cause);
}

/** Some engines look for a container's network when it is made, others when it starts. */
function networkRefusal(message: string, cause: unknown): SandboxError | undefined {
  if (!/network .*not found/iu.test(message)) return undefined;
  return new SandboxError(
    "UNSUPPORTED",
    `The engine lacks the network that sandboxes are to have: ${message}. Make it, or change docker.network.`,
    { cause },
  );
}

/** What the engine's no to starting a container means. */
export function startRefusal({ message }: EngineRefusal, cause: unknown): SandboxError | undefined {
  if (/exec format error|invalid argument: unknown|unknown runtime/iu.test(message))
    return new SandboxError(
      "UNSUPPORTED",
      `The engine cannot run sandboxes (starting the container): ${message}`,
      { cause },
    );
  return networkRefusal(message, cause);
}
