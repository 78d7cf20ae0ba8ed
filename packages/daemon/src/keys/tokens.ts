/** Tokens of a configured issuer in place of keys: verified once, then cached briefly. */
import { hash } from "node:crypto";
import { SandboxError } from "@sandkasten/protocol";
import { createLocalJWKSet, createRemoteJWKSet, errors, importSPKI, jwtVerify } from "jose";
import type { JSONWebKeySet, JWTPayload, JWTVerifyGetKey } from "jose";
import type { KeyScope } from "../ports/key-store.ts";
import type { Log } from "../ports/log.ts";
import type { Caller } from "../sessions/services/caller.ts";
import type { Quotas } from "./stored-keys.ts";

/** How long a verified token is cached. */
const KNOWN_MS = 60_000;
const MAX_KNOWN = 10_000;
/** SECURITY: anyone can send text that looks like a token, and verifying one takes time. */
const MAX_CHECKS = 32;
const MAX_LENGTH = 8192;
const FETCH_TIMEOUT_MS = 5000;
const FORM = /^[A-Za-z0-9_-]{2,}\.[A-Za-z0-9_-]{2,}\.[A-Za-z0-9_-]{2,}$/;
const OWNER = /^[\x21-\x7e]{1,128}$/;

/** The source of the issuer's public keys. */
export type TokenKeys =
  | { readonly kind: "set"; readonly keys: JSONWebKeySet }
  | { readonly kind: "url"; readonly url: URL }
  | { readonly kind: "pem"; readonly pem: string };

export interface TokenOptions {
  readonly issuer: string;
  readonly audience: string;
  readonly keys: TokenKeys;
  readonly algorithms: readonly string[];
  readonly ownerClaim: string;
  /** Tokens have the `use` scope when absent. */
  readonly scopeClaim?: string;
  readonly clockSkewSeconds: number;
}

interface Known {
  readonly caller: Caller;
  readonly untilMs: number;
}

export class Tokens {
  readonly #options: TokenOptions;
  readonly #quotas: Quotas;
  readonly #log: Log;
  readonly #nowMs: () => number;
  /** By digest, oldest first. */
  readonly #known = new Map<string, Known>();
  readonly #keyFor: JWTVerifyGetKey;
  #checks = 0;

  constructor(options: TokenOptions, quotas: Quotas, log: Log, nowMs: () => number = Date.now) {
    this.#options = options;
    this.#quotas = quotas;
    this.#log = log;
    this.#nowMs = nowMs;
    this.#keyFor = keyFinder(options);
  }

  /** Whether the text may be a token rather than a key. */
  looksLikeToken(text: string): boolean {
    return text.length <= MAX_LENGTH && FORM.test(text);
  }

  /** The caller with this token, if it was verified recently. */
  find(token: string, digest: Buffer): Caller | undefined {
    const known = this.#known.get(digest.toString("hex"));
    return known !== undefined && this.looksLikeToken(token) && known.untilMs > this.#nowMs()
      ? known.caller
      : undefined;
  }

  /**
   * Verifies a token, so `find` knows it. Also resolves for an invalid one. Rejects with BACKEND_BUSY
   * if the issuer's keys are unavailable, or too many tokens are being verified.
   *
   * SECURITY: only the listed algorithms are accepted, all of them asymmetric: neither `none` nor a
   * public key used as a shared secret passes. Issuer, audience and expiry must be present and
   * correct. Guarded by tokens.test.ts.
   */
  async check(token: string): Promise<void> {
    const digest = hash("sha256", token);
    if (this.#known.has(digest) && (this.#known.get(digest)?.untilMs ?? 0) > this.#nowMs()) return;
    if (this.#checks >= MAX_CHECKS) throw busy("too many tokens are being verified");
    this.#checks += 1;
    try {
      const { payload } = await jwtVerify(token, this.#keyFor, {
        issuer: this.#options.issuer,
        audience: this.#options.audience,
        algorithms: [...this.#options.algorithms],
        clockTolerance: this.#options.clockSkewSeconds,
        requiredClaims: ["exp", this.#options.ownerClaim],
        currentDate: new Date(this.#nowMs()),
      });
      this.#remember(digest, payload);
    } catch (error) {
      if (!isVerdict(error)) {
        this.#log.warn({ err: error }, "cannot get the token issuer's keys");
        throw busy("the keys of the token's issuer are unavailable");
      }
    } finally {
      this.#checks -= 1;
    }
  }

  #remember(digest: string, payload: JWTPayload): void {
    const caller = this.#callerOf(payload);
    if (caller === undefined) return;
    const [oldest] = this.#known.keys();
    if (this.#known.size >= MAX_KNOWN && oldest !== undefined) this.#known.delete(oldest);
    const untilMs = Math.min(this.#nowMs() + KNOWN_MS, caller.expiresAtMs ?? 0);
    this.#known.delete(digest);
    this.#known.set(digest, { caller, untilMs });
  }

  /**
   * SECURITY: the owner of a token begins with `jwt:`, which no key's owner can, so an issuer
   * cannot make anyone the owner of a key. Guarded by tokens.test.ts.
   */
  #callerOf(payload: JWTPayload): Caller | undefined {
    const { ownerClaim, clockSkewSeconds } = this.#options;
    const name = payload[ownerClaim];
    const scope = this.#scopeOf(payload);
    if (typeof name !== "string" || !OWNER.test(name) || scope === undefined) return undefined;
    return {
      ...this.#quotas,
      owner: `jwt:${name}`,
      isAdmin: scope === "admin",
      ...(scope === "read" && { isReadOnly: true }),
      expiresAtMs: ((payload.exp ?? 0) + clockSkewSeconds) * 1000,
    };
  }

  /** The widest scope that the claim grants; `sandkasten:use` and `use` are equivalent. */
  #scopeOf(payload: JWTPayload): KeyScope | undefined {
    const { scopeClaim } = this.#options;
    if (scopeClaim === undefined) return "use";
    const claim = payload[scopeClaim];
    const granted = typeof claim === "string" ? claim.split(" ") : claim;
    if (!Array.isArray(granted)) return undefined;
    const names = new Set(granted.map((one) => String(one).replace(/^sandkasten:/, "")));
    return (["admin", "use", "read"] as const).find((scope) => names.has(scope));
  }
}

/** Parses a JSON Web Key Set; throws if the text is not one. */
export function keySetOf(text: string): JSONWebKeySet {
  const set = JSON.parse(text) as JSONWebKeySet;
  if (!Array.isArray(set.keys)) throw new Error("it has no `keys`");
  return set;
}

function keyFinder({ keys, algorithms }: TokenOptions): JWTVerifyGetKey {
  if (keys.kind === "set") return createLocalJWKSet(keys.keys);
  if (keys.kind === "url")
    return createRemoteJWKSet(keys.url, { timeoutDuration: FETCH_TIMEOUT_MS });
  const imported = new Map<string, ReturnType<typeof importSPKI>>();
  return async ({ alg }) => {
    // The algorithm was already checked; this only avoids importing a key for another one.
    if (!algorithms.includes(alg)) throw new errors.JOSEAlgNotAllowed("not allowed");
    let key = imported.get(alg);
    if (key === undefined) imported.set(alg, (key = importSPKI(keys.pem, alg)));
    return await key;
  };
}

/** Whether the token is at fault, rather than the source of the keys. */
function isVerdict(error: unknown): boolean {
  return (
    error instanceof errors.JOSEError &&
    !(error instanceof errors.JWKSTimeout) &&
    error.code !== "ERR_JOSE_GENERIC"
  );
}

function busy(why: string): SandboxError {
  return new SandboxError("BACKEND_BUSY", `${why}; try again in a moment, or use a key`);
}
