/** Secrets that the gateway adds to requests, so that they never enter the sandbox. */
import { SandboxError } from "@sandkasten/protocol";
import { normalizeHostName } from "./host-names.ts";
import type { EgressPolicy } from "./egress.ts";

/** As in a request: with its value, or with the name of one of the administrator's secrets. */
export interface SecretRequest {
  readonly host: string;
  readonly header: string;
  readonly value?: string;
  readonly name?: string;
}

/** A header for requests to one host. */
export type EdgeSecret = {
  readonly host: string;
  /** Lower case. */
  readonly header: string;
} & ({ readonly value: string } | { readonly name: string });

/** A secret of the administrator, which callers use by name without knowing its value. */
export interface StoredSecret {
  readonly name: string;
  readonly host: string;
  readonly header: string;
  readonly value: string;
  /** Names of the API keys that may use it; all when absent. */
  readonly keys?: readonly string[];
}

const MAX_SECRETS = 32;
const MAX_VALUE_LENGTH = 16 * 1024;
const TOKEN = /^[a-z0-9!#$%&'*+.^_`|~-]{1,128}$/;
/** Visible characters, with spaces and tabs between them. */
const VALUE = /^[\x21-\x7e\x80-\xff](?:[\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?$/;
/** These headers determine the framing or the recipient of a message. */
const RESERVED = new Set([
  "connection",
  "content-encoding",
  "content-length",
  "content-type",
  "expect",
  "host",
  "keep-alive",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);

export interface SecretTerms {
  readonly store: readonly StoredSecret[];
  /** Name of the API key. */
  readonly owner: string;
  readonly policy: EgressPolicy;
}

/**
 * SECURITY: a caller can send the administrator's secret only to the host and in the header that the
 * administrator chose; otherwise, a host of the caller could print it. Guarded by
 * edge-secrets.test.ts.
 */
export function planSecrets(
  requests: readonly SecretRequest[],
  { store, owner, policy }: SecretTerms,
): readonly EdgeSecret[] {
  if (requests.length > MAX_SECRETS) throw invalid(`there can be at most ${MAX_SECRETS} secrets`);
  const planned = new Map<string, EdgeSecret>();
  for (const [at, request] of requests.entries()) {
    const host = normalizeHostName(request.host);
    if (host === undefined) throw invalid(`secrets[${at}].host must be a host name`);
    const header = request.header.toLowerCase();
    if (!TOKEN.test(header)) throw invalid(`secrets[${at}].header must be the name of a header`);
    if (RESERVED.has(header) || header.startsWith("proxy-"))
      throw invalid(`secrets[${at}].header must not be ${header}, which controls the connection`);
    if (policy.portsOf(host).length === 0)
      throw invalid(
        `secrets[${at}].host is ${host}, which the session's network does not allow; add it to network.allow`,
      );
    const key = `${host} ${header}`;
    if (planned.has(key)) throw invalid(`secrets[${at}] sets ${header} for ${host} again`);
    planned.set(key, { host, header, ...valueOf(request, at, { host, header, store, owner }) });
  }
  return [...planned.values()];
}

function valueOf(
  { value, name }: SecretRequest,
  at: number,
  {
    host,
    header,
    store,
    owner,
  }: Pick<SecretTerms, "store" | "owner"> & Pick<EdgeSecret, "host" | "header">,
): { readonly value: string } | { readonly name: string } {
  if ((value === undefined) === (name === undefined))
    throw invalid(`secrets[${at}] must have either value or name`);
  if (value !== undefined) {
    if (value.length > MAX_VALUE_LENGTH || !VALUE.test(value))
      throw invalid(
        `secrets[${at}].value must be the value of a header: one line of at most ${MAX_VALUE_LENGTH} characters, without spaces around it`,
      );
    return { value };
  }
  const stored = store.find((one) => one.name === name && mayUse(one, owner));
  if (stored === undefined || name === undefined)
    throw new SandboxError(
      "PERMISSION_DENIED",
      `secrets[${at}].name: the administrator has no secret of this name for this API key; give a value, or ask the administrator to add it to network.secrets`,
    );
  if (normalizeHostName(stored.host) !== host || stored.header.toLowerCase() !== header)
    throw new SandboxError(
      "PERMISSION_DENIED",
      `secrets[${at}]: the administrator's secret ${name} is for the header ${stored.header} of ${stored.host} alone`,
    );
  return { name };
}

function mayUse({ keys }: StoredSecret, owner: string): boolean {
  return keys === undefined || keys.includes(owner);
}

/** The current value of the header; undefined if the administrator has removed the secret. */
export function currentValue(
  secret: EdgeSecret,
  { store, owner }: Pick<SecretTerms, "store" | "owner">,
): string | undefined {
  if ("value" in secret) return secret.value;
  return store.find(
    (one) =>
      one.name === secret.name &&
      mayUse(one, owner) &&
      normalizeHostName(one.host) === secret.host &&
      one.header.toLowerCase() === secret.header,
  )?.value;
}

function invalid(message: string): SandboxError {
  return new SandboxError("INVALID_REQUEST", message);
}
