/** The key that signs preview links: generated once, so links survive a restart of the daemon. */
import { randomBytes } from "node:crypto";
import { ensureSecret } from "./secret-file.ts";

const KEY_BYTES = 32;
const FORM = /^[A-Za-z0-9_-]{43}$/;

/**
 * SECURITY: anyone who knows the key can create links to every port of every session, so it is
 * protected like the API key: in the data directory, with mode 0600. Guarded by
 * ensure-preview-key.test.ts.
 */
export async function ensurePreviewKey(dataDir: string): Promise<Buffer> {
  const { secret } = await ensureSecret({
    directory: dataDir,
    name: "preview-key",
    make: () => randomBytes(KEY_BYTES).toString("base64url"),
    accepts: (text) => FORM.test(text),
    remedy: "or remove it to generate a new key, which invalidates all preview links",
  });
  return Buffer.from(secret, "base64url");
}
