/** The secrets of one session: encrypted for the store, and as the gateway uses them. */
import { currentValue } from "./edge-secrets.ts";
import type { EdgeSecret, StoredSecret } from "./edge-secrets.ts";
import type { SecretBox } from "./secret-box.ts";
import { SecretProxy } from "./secret-proxy.ts";
import type { SecretProxyOptions } from "./secret-proxy.ts";
import type { SessionCa, StoredCa } from "./session-ca.ts";

/** As stored: the purpose of a secret is readable, its value is not. */
export interface SealedSecrets {
  readonly sealed: string;
  readonly headers: readonly SecretHeader[];
}

/** The parts of a secret that can be shown. */
export interface SecretHeader {
  readonly host: string;
  readonly header: string;
  /** Of the administrator's secret. */
  readonly name?: string;
}

interface SealedContent {
  readonly ca: StoredCa;
  readonly secrets: readonly EdgeSecret[];
}

export interface SecretParts {
  readonly box: SecretBox;
  /** The administrator's secrets. */
  readonly store: readonly StoredSecret[];
  /** PEM certificates of additional authorities for real hosts. */
  readonly trusted: readonly string[];
}

/** Creates the authority of a sandbox and encrypts it with the secrets. */
export async function sealSecrets(
  secrets: readonly EdgeSecret[],
  owner: string,
  { box }: SecretParts,
  nowMs: number,
): Promise<SealedSecrets> {
  // The library takes a while to load, so it is loaded only when it is needed.
  const { SessionCa: Ca } = await import("./session-ca.ts");
  const content: SealedContent = { ca: await Ca.make(nowMs), secrets };
  return {
    sealed: box.seal(JSON.stringify(content), contextOf(owner)),
    headers: secrets.map((secret) => ({
      host: secret.host,
      header: secret.header,
      ...("name" in secret && { name: secret.name }),
    })),
  };
}

/** PEM, for the sandbox to trust. */
export function certificateOf(
  { sealed }: SealedSecrets,
  owner: string,
  { box }: SecretParts,
): string {
  return opened(sealed, owner, box).ca.certificate;
}

/** Adds the secrets to requests of the session. */
export function secretProxy(
  { sealed }: SealedSecrets,
  owner: string,
  { box, store, trusted }: SecretParts,
  rest: Pick<SecretProxyOptions, "nowMs" | "take">,
): SecretProxy {
  const { ca: stored, secrets } = opened(sealed, owner, box);
  let ca: Promise<SessionCa> | undefined;
  return new SecretProxy({
    ...rest,
    trusted,
    ca: async () => {
      ca ??= import("./session-ca.ts").then(({ SessionCa: Ca }) => new Ca(stored));
      return await ca;
    },
    secretsFor: (host) =>
      secrets
        .filter((secret) => secret.host === host)
        .map((secret) => ({
          header: secret.header,
          value: currentValue(secret, { store, owner }),
        })),
  });
}

/** Encrypted for one tenant, it cannot be used by another. */
function contextOf(owner: string): string {
  return `secrets of sessions of ${owner}`;
}

function opened(sealed: string, owner: string, box: SecretBox): SealedContent {
  return JSON.parse(box.open(sealed, contextOf(owner))) as SealedContent;
}
