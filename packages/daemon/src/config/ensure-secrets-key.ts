/** The key that encrypts secrets in the database: generated once, so sessions survive a restart. */
import { randomBytes } from "node:crypto";
import { ensureSecret } from "./secret-file.ts";

const KEY_BYTES = 32;
const FORM = /^[A-Za-z0-9_-]{43}$/;

/**
 * SECURITY: without the key the secrets in the database cannot be read, so it is stored separately,
 * in a file with mode 0600. Guarded by ensure-api-key.test.ts and secrets-at-rest.test.ts.
 */
export async function ensureSecretsKey(dataDir: string): Promise<Buffer> {
  const { secret } = await ensureSecret({
    directory: dataDir,
    name: "secrets-key",
    make: () => randomBytes(KEY_BYTES).toString("base64url"),
    accepts: (text) => FORM.test(text),
    remedy:
      "or remove it to generate a new key, which invalidates the secrets of existing sessions",
  });
  return Buffer.from(secret, "base64url");
}
