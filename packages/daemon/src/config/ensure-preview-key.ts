/** The key that preview links are signed with: made once, so that links survive a restart of the daemon. */
import { randomBytes } from "node:crypto";
import { ensureSecret } from "./secret-file.ts";

const KEY_BYTES = 32;
const FORM = /^[A-Za-z0-9_-]{43}$/;

/**
 * SECURITY: whoever knows the key can make links to every port of every session, so that it is kept
 * as the API key is: in the data directory, with mode 0600. Guarded by ensure-preview-key.test.ts.
 */
export async function ensurePreviewKey(dataDir: string): Promise<Buffer> {
  const { secret } = await ensureSecret({
    directory: dataDir,
    name: "preview-key",
    make: () => randomBytes(KEY_BYTES).toString("base64url"),
    accepts: (text) => FORM.test(text),
    remedy: "or remove it for a new key to be made, which ends all preview links",
  });
  return Buffer.from(secret, "base64url");
}
