/** Signs links to one port of one session, and checks them. */
import { createHmac, timingSafeEqual } from "node:crypto";
import type { PortAddress } from "./preview-address.ts";

const FORM = /^([1-9a-z][0-9a-z]{0,8})\.([A-Za-z0-9_-]{43})$/;

export interface PreviewTokensOptions {
  readonly key: Uint8Array;
  readonly nowMs: () => number;
}

export class PreviewTokens {
  readonly #options: PreviewTokensOptions;

  constructor(options: PreviewTokensOptions) {
    this.#options = options;
  }

  nowMs(): number {
    return this.#options.nowMs();
  }

  make(address: PortAddress, expiresInSeconds: number): { token: string; expiresAtMs: number } {
    const expiresAt = Math.floor(this.nowMs() / 1000) + expiresInSeconds;
    const token = `${expiresAt.toString(36)}.${this.#mac(address, expiresAt)}`;
    return { token, expiresAtMs: expiresAt * 1000 };
  }

  /**
   * When the token ends, or undefined when it does not open this port of this session now.
   *
   * SECURITY: the signature is over session, port and end, all of which the daemon knows without the
   * token's help, so that a token opens nothing but what it was made for. It is compared as text of a
   * fixed length in constant time, which also leaves no second spelling of a valid one. Session ids are
   * never used again, so that a token dies with its session. Guarded by preview-token.test.ts.
   */
  check(token: string, address: PortAddress): number | undefined {
    const [, end, given] = FORM.exec(token) ?? [];
    if (end === undefined || given === undefined) return undefined;
    const expiresAt = Number.parseInt(end, 36);
    const expected = this.#mac(address, expiresAt);
    const isGenuine = timingSafeEqual(Buffer.from(given), Buffer.from(expected));
    return isGenuine && expiresAt * 1000 > this.nowMs() ? expiresAt * 1000 : undefined;
  }

  #mac({ sessionId, port }: PortAddress, expiresAt: number): string {
    return createHmac("sha256", this.#options.key)
      .update(`sandkasten preview 1\n${sessionId}\n${port}\n${expiresAt}`)
      .digest("base64url");
  }
}
