/** Tells callers by their keys. */
import { hash, timingSafeEqual } from "node:crypto";
import type { Caller } from "../../../sessions/services.ts";

export interface KeyHolder {
  readonly key: string;
  readonly caller: Caller;
}

/** As `timingSafeEqual`: takes buffers of one length. */
export type CompareDigests = (one: Buffer, other: Buffer) => boolean;

/** Keys beside those of the configuration. */
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
   * Who has this key.
   *
   * SECURITY: digests of equal length are compared in constant time, and all of them, so that the
   * time tells neither how much of a key was right nor whose it nearly was (threat: timing of key
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
