/** Previews in the HTTP layer: addresses, tokens, and how long links may last. */
import { SandboxError } from "@sandkasten/protocol";
import type { IncomingMessage } from "node:http";
import { keyOf } from "../http/admission/credentials.ts";
import type { Caller } from "../../sessions/services/caller.ts";
import type { KeyRing } from "../http/admission/keys.ts";
import { PreviewAddresses } from "./preview-address.ts";
import type { PortAddress } from "./preview-address.ts";
import { PreviewTokens } from "./preview-token.ts";

export interface PreviewOptions {
  /** Signs links. */
  readonly key: Uint8Array;
  readonly domain?: string;
  readonly scheme: "http" | "https";
  readonly maxSeconds: number;
  /** The wall clock when absent. */
  readonly nowMs?: () => number;
  /** How often a link in use is checked for its end. */
  readonly lookIntervalMs?: number;
}

const DEFAULT_SECONDS = 3_600;
const DEFAULT_LOOK_INTERVAL_MS = 1_000;

export class Previews {
  readonly addresses: PreviewAddresses;
  readonly tokens: PreviewTokens;
  readonly scheme: "http" | "https";
  readonly lookIntervalMs: number;
  readonly #keys: KeyRing;
  readonly #maxSeconds: number;

  constructor(options: PreviewOptions, keys: KeyRing, isValidKey: (keyId: string) => boolean) {
    this.#keys = keys;
    this.addresses = new PreviewAddresses(options);
    this.tokens = new PreviewTokens({
      key: options.key,
      nowMs: options.nowMs ?? Date.now,
      isValidKey,
    });
    this.scheme = options.scheme;
    this.lookIntervalMs = options.lookIntervalMs ?? DEFAULT_LOOK_INTERVAL_MS;
    this.#maxSeconds = options.maxSeconds;
  }

  nowMs(): number {
    return this.tokens.nowMs();
  }

  /** Whether a header carries a key of this daemon, in any form that the API accepts. */
  isOurs(authorization: string): boolean {
    const key = keyOf({ authorization }, "browser");
    return key !== undefined && this.#keys.find(key) !== undefined;
  }

  isHost(request: IncomingMessage): boolean {
    return this.addresses.ofHost(request) !== undefined;
  }

  /** A link for visitors without a key. `asked` is the host under which the client reached the daemon. */
  link(
    address: PortAddress,
    asked: string,
    { keyId, expiresAtMs: endOfKeyMs = Number.POSITIVE_INFINITY }: Caller,
    expiresInSeconds = Math.min(DEFAULT_SECONDS, this.#maxSeconds),
  ): { readonly url: string; readonly expiresAtMs: number } {
    if (expiresInSeconds > this.#maxSeconds)
      throw new SandboxError(
        "INVALID_REQUEST",
        `invalid request body: \`expires_in_seconds\` must be at most ${this.#maxSeconds}, which the administrator sets as preview.max_seconds`,
      );
    // No link outlives the key that it was created with.
    const left = Math.max(1, Math.floor((endOfKeyMs - this.nowMs()) / 1000));
    const { token, expiresAtMs } = this.tokens.make(
      address,
      Math.min(expiresInSeconds, left),
      keyId,
    );
    return { url: this.addresses.urlOf(address, token, asked), expiresAtMs };
  }
}
