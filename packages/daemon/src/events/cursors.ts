/** Encodes feed positions as opaque strings. */
import { createCipheriv, createDecipheriv } from "node:crypto";

const ALGORITHM = "aes-128-ecb";
const FORM = /^[A-Za-z0-9_-]{22}$/;
const HALF = 8;

export class Cursors {
  readonly #key: Uint8Array;

  constructor(key: Uint8Array) {
    this.#key = key;
  }

  /**
   * SECURITY: a plain number would reveal to each tenant how active all others are, from the
   * distance between two of its own events. One encrypted block hides that; its second half is
   * zero, which makes guessing a cursor practically impossible. Guarded by cursors.test.ts.
   */
  encode(position: number): string {
    const block = Buffer.alloc(2 * HALF);
    block.writeBigUInt64BE(BigInt(position));
    const cipher = createCipheriv(ALGORITHM, this.#key, null).setAutoPadding(false);
    return Buffer.concat([cipher.update(block), cipher.final()]).toString("base64url");
  }

  /** Undefined for a cursor that this feed did not create. */
  decode(cursor: string): number | undefined {
    if (!FORM.test(cursor)) return undefined;
    const sealed = Buffer.from(cursor, "base64url");
    const cipher = createDecipheriv(ALGORITHM, this.#key, null).setAutoPadding(false);
    const block = Buffer.concat([cipher.update(sealed), cipher.final()]);
    // Several base64 texts can decode to the same bytes; only one of them is ours.
    if (block.readBigUInt64BE(HALF) !== 0n || sealed.toString("base64url") !== cursor)
      return undefined;
    const position = Number(block.readBigUInt64BE());
    return Number.isSafeInteger(position) ? position : undefined;
  }
}
