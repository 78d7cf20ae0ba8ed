/** Identifies callers by their keys. */
import { hash, timingSafeEqual } from "node:crypto";
import type { Caller } from "../../../sessions/services/caller.ts";

export interface KeyHolder {
  readonly key: string;
  readonly caller: Caller;
}

/** Like `timingSafeEqual`: takes buffers of equal length. */
export type CompareDigests = (one: Buffer, other: Buffer) => boolean;

/** Keys in addition to the configured ones. */
export interface FurtherKeys {
  find(key: string, digest: Buffer): Caller | undefined;
}

export class KeyRing {
  readonly #compare: CompareDigests;
  readonly #further: FurtherKeys | undefined;
  readonly #entries: readonly { readonly digest: Buffer; readonly caller: Caller }[];

  constructor(
    holders: readonly KeyHolder[],
    compare: CompareDigests = timingSafeEqual,
    further?: FurtherKeys,
  ) {
    this.#compare = compare;
    this.#further = further;
    if (holders.length === 0 || holders.some(({ key }) => key === ""))
      throw new Error("the API needs at least one key, and no key may be empty");
    this.#entries = holders.map(({ key, caller }) => ({ digest: digestOf(key), caller }));
  }

  /**
   * The caller with this key.
   *
   * SECURITY: digests of equal length are compared in constant time, and all of them, so the timing
   * reveals neither how much of a key was right nor whose key it was close to (threat: timing of key
   * checks). Guarded by keys.test.ts.
   */
  find(key: string): Caller | undefined {
    const digest = digestOf(key);
    let found = this.#further?.find(key, digest);
    for (const entry of this.#entries)
      if (this.#compare(entry.digest, digest)) found = entry.caller;
    return found;
  }
}

function digestOf(key: string): Buffer {
  return hash("sha256", key, "buffer");
}
