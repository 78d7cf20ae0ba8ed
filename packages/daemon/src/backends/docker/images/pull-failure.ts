/** Classifies a failed pull: image, credentials, registry or disk. */
import { SandboxError } from "@sandkasten/protocol";
import type { ImageReference } from "../../../images/reference.ts";
import { pullRefusal } from "../../../images/registry-failure.ts";
import type { RegistryFault } from "../../../images/registry-failure.ts";

const FULL = /no space left on device|disk quota exceeded/i;
const DENIED =
  /unauthorized|authentication required|access denied|denied:|no basic auth credentials|incorrect username or password|forbidden/i;
const ABSENT = /manifest unknown|not found|name unknown/i;
/** Errors that do not go away with a retry. */
const IMAGE_AT_FAULT =
  /no matching manifest|failed to register layer|verification failed|does not match|x509|certificate|HTTP response to HTTPS client|unsupported|invalid/i;
const REGISTRY_AT_FAULT =
  /dial tcp|connection (?:refused|reset)|no such host|no route to host|network is unreachable|timeout|timed out|deadline exceeded|\bEOF\b|server misbehaving|temporar|toomanyrequests|rate limit|context canceled|received unexpected HTTP status|status(?: code)?:? (?:429|5\d\d)|download failed after attempts/i;

const MAX_MESSAGE_CHARS = 300;

/**
 * The error for the client. Engines quote the addresses they contacted and the pages they got, which
 * only go to the log.
 *
 * @param message - The engine's message.
 * @param advice - What else the caller can do.
 */
export function pullFailure(
  reference: ImageReference,
  message: string,
  advice?: string,
): SandboxError {
  const what = withoutNames(message, reference);
  if (FULL.test(what))
    return new SandboxError(
      "STORAGE_FULL",
      `${reference.canonical} cannot be pulled: the Docker engine's disk is full. Remove unused images.`,
    );
  return pullRefusal(faultOf(what), reference, advice);
}

function faultOf(what: string): RegistryFault {
  if (DENIED.test(what)) return "denied";
  if (ABSENT.test(what)) return "absent";
  if (!IMAGE_AT_FAULT.test(what) && REGISTRY_AT_FAULT.test(what)) return "unreachable";
  return "unexpected";
}

/** A name may contain any word: `registry.invalid` is not invalid. */
function withoutNames(message: string, { registry, repository }: ImageReference): string {
  const host = registry?.split(":")[0] ?? "docker.io";
  return message
    .replaceAll(repository, "")
    .replaceAll(host, "")
    .replace(/"[^"]*"/g, "");
}

/**
 * SECURITY: engines quote the addresses they contact, in which registries put user names, tokens
 * and signatures (threat: leaked secrets and descriptors). Guarded by pull-failure.test.ts.
 */
export function withoutSecrets(message: string, secrets: readonly string[]): string {
  const named = secrets
    .filter((secret) => secret !== "")
    .reduce((text, secret) => text.replaceAll(secret, "…"), message);
  return named
    .replace(/\/\/[^\s/"@]*@/g, "//")
    .replace(/\?[^\s"]*/g, "?…")
    .replace(/\p{Cc}+/gu, " ")
    .trim()
    .slice(0, MAX_MESSAGE_CHARS)
    .replace(/[.:\s]+$/, "");
}
