/** How daemons that share a store know each other: a header, signed with their common secret, that says for whom a request is forwarded. */
import { createHmac, timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { z } from "zod";
import type { Caller } from "../../sessions/services.ts";

export const PEER_HEADER = "x-sandkasten-peer";
/** Clocks of machines may differ by this much. */
const MAX_AGE_MS = 300_000;

/** What stands behind the caller's own fields is passed on as it is. */
const tokenSchema = z.object({
  atMs: z.number(),
  caller: z.looseObject({ owner: z.string(), isAdmin: z.boolean() }).optional(),
});

/** What a daemon says of a request that it forwards. */
export interface Forwarded {
  /** Absent when a link lets the request in, which is looked at again. */
  readonly caller?: Caller;
}

export class PeerTokens {
  readonly #secret: string;
  readonly #nowMs: () => number;

  constructor(secret: string, nowMs: () => number = () => Date.now()) {
    this.#secret = secret;
    this.#nowMs = nowMs;
  }

  /** For this method and URL alone. */
  sign({ method, url }: RequestLine, { caller }: Forwarded): string {
    const text = JSON.stringify({ atMs: this.#nowMs(), ...(caller !== undefined && { caller }) });
    const claim = Buffer.from(text).toString("base64url");
    return `${claim}.${this.#signature(claim, method, url).toString("base64url")}`;
  }

  /**
   * What another daemon says of this request; undefined for a request that none forwarded.
   *
   * SECURITY: who could make this header up would be any caller. It counts only with a signature over
   * the caller, the method and the URL, by a secret that clients do not have, and not for long.
   * Guarded by peer-token.test.ts.
   */
  read(request: Pick<IncomingMessage, "headers">, line: RequestLine): Forwarded | undefined {
    const header = request.headers[PEER_HEADER];
    if (typeof header !== "string") return undefined;
    const [claim = "", signature = ""] = header.split(".");
    const given = Buffer.from(signature, "base64url");
    const right = this.#signature(claim, line.method, line.url);
    if (given.length !== right.length || !timingSafeEqual(given, right)) return undefined;
    const { atMs, caller } = tokenSchema.parse(
      JSON.parse(Buffer.from(claim, "base64url").toString()),
    );
    if (Math.abs(this.#nowMs() - atMs) > MAX_AGE_MS) return undefined;
    return caller === undefined ? {} : { caller: caller as unknown as Caller };
  }

  #signature(claim: string, method: string, url: string): Buffer {
    return createHmac("sha256", this.#secret).update(`${claim}\n${method}\n${url}`).digest();
  }
}

export interface RequestLine {
  readonly method: string;
  readonly url: string;
}
