/** Encrypts values that must not be readable in the database. */
import { createCipheriv, createDecipheriv, createHmac, randomBytes } from "node:crypto";

const ALGORITHM = "aes-256-gcm";
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/**
 * SECURITY: the database, a backup or a query log reveals nothing about the secrets without
 * the key file; an encrypted text is bound to its context, so it cannot be moved to another
 * session. Guarded by secret-box.test.ts.
 */
export class SecretBox {
  readonly #key: Buffer;

  constructor(key: Buffer) {
    this.#key = key;
  }

  seal(text: string, context: string): string {
    const nonce = randomBytes(NONCE_BYTES);
    const cipher = createCipheriv(ALGORITHM, this.#key, nonce).setAAD(Buffer.from(context));
    const sealed = Buffer.concat([cipher.update(text, "utf8"), cipher.final()]);
    return Buffer.concat([nonce, cipher.getAuthTag(), sealed]).toString("base64");
  }

  /** Throws if the text was not encrypted with this key in this context. */
  open(sealed: string, context: string): string {
    const bytes = Buffer.from(sealed, "base64");
    const nonce = bytes.subarray(0, NONCE_BYTES);
    const tag = bytes.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES);
    if (tag.length < TAG_BYTES) throw new Error("a sealed text is cut off");
    const decipher = createDecipheriv(ALGORITHM, this.#key, nonce, { authTagLength: TAG_BYTES })
      .setAAD(Buffer.from(context))
      .setAuthTag(tag);
    const rest = bytes.subarray(NONCE_BYTES + TAG_BYTES);
    return Buffer.concat([decipher.update(rest), decipher.final()]).toString("utf8");
  }

  /** Equal for equal texts, and useless for guessing them without the key. */
  fingerprint(text: string): string {
    return createHmac("sha256", this.#key).update("fingerprint\0").update(text).digest("base64url");
  }
}
