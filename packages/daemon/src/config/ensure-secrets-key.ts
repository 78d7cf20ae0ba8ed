/** The key that secrets are encrypted with in the database: made once, so that sessions survive a restart. */
import { randomBytes } from "node:crypto";
import { ensureSecret } from "./secret-file.ts";

const KEY_BYTES = 32;
const FORM = /^[A-Za-z0-9_-]{43}$/;

/**
 * SECURITY: without the key nobody can read the secrets in the database, so that it is kept beside
 * it, in a file of mode 0600. Guarded by ensure-api-key.test.ts and secrets-at-rest.test.ts.
 */
export async function ensureSecretsKey(dataDir: string): Promise<Buffer> {
  const { secret } = await ensureSecret({
    directory: dataDir,
    name: "secrets-key",
    make: () => randomBytes(KEY_BYTES).toString("base64url"),
    accepts: (text) => FORM.test(text),
    remedy: "or remove it for a new key to be made, which ends the secrets of living sessions",
  });
  return Buffer.from(secret, "base64url");
}
