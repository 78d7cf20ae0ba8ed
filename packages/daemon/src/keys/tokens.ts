/** Tokens of a configured issuer in place of keys: checked once, then known for a moment. */
import { hash } from "node:crypto";
import { SandboxError } from "@sandkasten/protocol";
import { createLocalJWKSet, createRemoteJWKSet, errors, importSPKI, jwtVerify } from "jose";
import type { JSONWebKeySet, JWTPayload, JWTVerifyGetKey } from "jose";
import type { KeyScope } from "../ports/key-store.ts";
import type { Log } from "../ports/log.ts";
import type { Caller } from "../sessions/services.ts";
import type { Quotas } from "./stored-keys.ts";

/** How long a token that was checked is not checked again. */
const KNOWN_MS = 60_000;
const MAX_KNOWN = 10_000;
/** SECURITY: anybody can send what looks like a token, and checking one takes time. */
const MAX_CHECKS = 32;
const MAX_LENGTH = 8192;
const FETCH_TIMEOUT_MS = 5000;
const FORM = /^[A-Za-z0-9_-]{2,}\.[A-Za-z0-9_-]{2,}\.[A-Za-z0-9_-]{2,}$/;
const OWNER = /^[\x21-\x7e]{1,128}$/;

/** Where the issuer's public keys are. */
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
  /** Tokens have the scope `use` when absent. */
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
  /** By digest, the oldest first. */
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

  /** Whether it may be a token, rather than a key. */
  looksLikeToken(text: string): boolean {
    return text.length <= MAX_LENGTH && FORM.test(text);
  }

  /** Who sent this token, if it was checked just now. */
  find(token: string, digest: Buffer): Caller | undefined {
    const known = this.#known.get(digest.toString("hex"));
    return known !== undefined && this.looksLikeToken(token) && known.untilMs > this.#nowMs()
      ? known.caller
      : undefined;
  }

  /**
   * Checks a token, so that `find` knows it. Resolves also for one that is worth nothing. BACKEND_BUSY
   * when the issuer's keys cannot be had now, or too many are being checked.
   *
   * SECURITY: only the algorithms of the list count, which are all of key pairs: neither `none` nor a
   * public key taken for a shared secret is accepted. Issuer, audience and expiry must be there and
   * right. Guarded by tokens.test.ts.
   */
  async check(token: string): Promise<void> {
    const digest = hash("sha256", token);
    if (this.#known.has(digest) && (this.#known.get(digest)?.untilMs ?? 0) > this.#nowMs()) return;
    if (this.#checks >= MAX_CHECKS) throw busy("too many tokens are being checked");
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
        this.#log.warn({ err: error }, "the keys of the issuer of tokens cannot be had");
        throw busy("the keys of the token's issuer cannot be had now");
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
   * SECURITY: the owner of a token begins with `jwt:`, which no owner of a key can, so that nobody
   * becomes the owner of a key by what an issuer calls them. Guarded by tokens.test.ts.
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

  /** The most that the claim grants; `sandkasten:use` and `use` mean the same. */
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

/** The keys in the text of a JSON Web Key Set; throws when it is none. */
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
    // The list of algorithms is looked at before; this only keeps others from being imported for.
    if (!algorithms.includes(alg)) throw new errors.JOSEAlgNotAllowed("not allowed");
    let key = imported.get(alg);
    if (key === undefined) imported.set(alg, (key = importSPKI(keys.pem, alg)));
    return await key;
  };
}

/** Whether the token is at fault, rather than whoever has the keys for it. */
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
