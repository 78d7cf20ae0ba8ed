/**
 * How daemons that share a store authenticate each other: a header, signed with their shared
 * secret, that names a forwarded request's caller.
 */
import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { z } from "zod";
import { PEER_HEADER } from "../http/admission/peer-header.ts";
import type { Caller } from "../../sessions/services/caller.ts";
import { UsedOnce } from "./used-once.ts";

/** The maximum clock difference between machines. */
const MAX_AGE_MS = 60_000;

const callerSchema = z.strictObject({
  owner: z.string(),
  isAdmin: z.boolean(),
  maxSessions: z.number(),
  maxRunningExecs: z.number(),
  maxWorkspaces: z.number(),
  maxImageBytes: z.number(),
  isReadOnly: z.boolean().optional(),
  keyId: z.string().optional(),
  expiresAtMs: z.number().optional(),
});

const tokenSchema = z.strictObject({
  atMs: z.number(),
  /** The address of the target daemon. */
  to: z.string(),
  nonce: z.string(),
  caller: callerSchema.optional(),
});

/** What a daemon states about a request that it forwards. */
export interface Forwarded {
  /** Absent if a link gives access, which is checked again. */
  readonly caller?: Caller;
}

export interface PeerTokensOptions {
  readonly secret: string;
  /** Where others reach this daemon; absent if none does. */
  readonly address?: string | undefined;
  readonly nowMs?: () => number;
}

export class PeerTokens {
  readonly #secret: string;
  readonly #address: string | undefined;
  readonly #nowMs: () => number;
  readonly #used: UsedOnce;

  constructor({ secret, address, nowMs = () => Date.now() }: PeerTokensOptions) {
    this.#secret = secret;
    this.#address = address;
    this.#nowMs = nowMs;
    // A token is valid for this long before its time, for a slow clock, and after it.
    this.#used = new UsedOnce(2 * MAX_AGE_MS, nowMs);
  }

  /** For one request with this method and URL to the daemon at this address. */
  sign({ method, url }: RequestLine, to: string, { caller }: Forwarded): string {
    const token: z.infer<typeof tokenSchema> = {
      atMs: this.#nowMs(),
      to,
      nonce: randomBytes(12).toString("base64url"),
      ...(caller !== undefined && { caller: claimsOf(caller) }),
    };
    const claim = Buffer.from(JSON.stringify(token)).toString("base64url");
    return `${claim}.${this.#signature(claim, method, url).toString("base64url")}`;
  }

  /**
   * What another daemon states about this request; undefined for a request that was not forwarded.
   *
   * SECURITY: a forged header could impersonate any caller (threat: unauthorized access). It is accepted
   * only with a signature, by a secret that clients do not have, over the caller, the method, the URL and
   * this daemon's address; once; and only for a short time. Guarded by peer-token.test.ts and
   * forwarded-requests.test.ts.
   */
  read(request: Pick<IncomingMessage, "headers">, line: RequestLine): Forwarded | undefined {
    const header = request.headers[PEER_HEADER];
    if (typeof header !== "string" || this.#address === undefined) return undefined;
    const [claim = "", signature = ""] = header.split(".");
    const given = Buffer.from(signature, "base64url");
    const right = this.#signature(claim, line.method, line.url);
    if (given.length !== right.length || !timingSafeEqual(given, right)) return undefined;
    const { atMs, to, nonce, caller } = tokenSchema.parse(
      JSON.parse(Buffer.from(claim, "base64url").toString()),
    );
    if (to !== this.#address || Math.abs(this.#nowMs() - atMs) > MAX_AGE_MS) return undefined;
    if (!this.#used.use(nonce)) return undefined;
    return caller === undefined ? {} : { caller: caller as Caller };
  }

  #signature(claim: string, method: string, url: string): Buffer {
    return createHmac("sha256", this.#secret).update(`${claim}\n${method}\n${url}`).digest();
  }
}

/** A configured caller has additional fields, which only concern one daemon. */
function claimsOf(caller: Caller): z.infer<typeof callerSchema> {
  const names = Object.keys(callerSchema.shape) as (keyof typeof callerSchema.shape)[];
  return callerSchema.parse(Object.fromEntries(names.map((name) => [name, caller[name]])));
}

export interface RequestLine {
  readonly method: string;
  readonly url: string;
}
