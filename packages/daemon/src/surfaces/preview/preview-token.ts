/** Signs and verifies links to one port of one session. */
import { createHmac, timingSafeEqual } from "node:crypto";
import type { PortAddress } from "./preview-address.ts";

const FORM = /^([1-9a-z][0-9a-z]{0,8})(?:\.(key_[0-9a-f]{16}))?\.([A-Za-z0-9_-]{43})$/;

export interface PreviewTokensOptions {
  readonly key: Uint8Array;
  readonly nowMs: () => number;
  /** Whether a key that links were created with is still valid. */
  readonly isValidKey: (keyId: string) => boolean;
}

/** The contents of a genuine token. */
export interface PreviewLink {
  readonly expiresAtMs: number;
  /** The key that it was created with, if that can be revoked. */
  readonly keyId?: string;
}

export class PreviewTokens {
  readonly #options: PreviewTokensOptions;

  constructor(options: PreviewTokensOptions) {
    this.#options = options;
  }

  nowMs(): number {
    return this.#options.nowMs();
  }

  make(
    address: PortAddress,
    expiresInSeconds: number,
    keyId?: string,
  ): { token: string; expiresAtMs: number } {
    const expiresAt = Math.floor(this.nowMs() / 1000) + expiresInSeconds;
    const key = keyId === undefined ? "" : `.${keyId}`;
    const token = `${expiresAt.toString(36)}${key}.${this.#mac(address, expiresAt, keyId)}`;
    return { token, expiresAtMs: expiresAt * 1000 };
  }

  /** Whether a genuine link has expired. */
  isOver({ expiresAtMs, keyId }: PreviewLink): boolean {
    return expiresAtMs <= this.nowMs() || (keyId !== undefined && !this.#options.isValidKey(keyId));
  }

  /**
   * The token's contents, or undefined if it does not open this port of this session now.
   *
   * SECURITY: the signature covers session, port and end, all of which the daemon knows without the
   * token, so a token opens only what it was created for. It is compared as text of fixed length in
   * constant time, which also rules out a second spelling of a valid one. Session ids are never reused, so
   * a token expires with its session. It names the key that it was created with and expires with that,
   * too. Guarded by preview-token.test.ts.
   */
  check(token: string, address: PortAddress): PreviewLink | undefined {
    const [, end, keyId, given] = FORM.exec(token) ?? [];
    if (end === undefined || given === undefined) return undefined;
    const expiresAt = Number.parseInt(end, 36);
    const expected = this.#mac(address, expiresAt, keyId);
    const isGenuine = timingSafeEqual(Buffer.from(given), Buffer.from(expected));
    const link = { expiresAtMs: expiresAt * 1000, ...(keyId !== undefined && { keyId }) };
    return isGenuine && !this.isOver(link) ? link : undefined;
  }

  #mac({ sessionId, port }: PortAddress, expiresAt: number, keyId: string | undefined): string {
    const key = keyId === undefined ? "" : `\n${keyId}`;
    return createHmac("sha256", this.#options.key)
      .update(`sandkasten preview 1\n${sessionId}\n${port}\n${expiresAt}${key}`)
      .digest("base64url");
  }
}
