/** Makes a key for a daemon that was given none, once, and finds it again. */
import { randomBytes } from "node:crypto";
import { DEFAULT_OWNER } from "./config.ts";
import type { ApiKey, Config } from "./config.ts";
import { apiKey as keyForm } from "./kinds.ts";
import { ensureSecret } from "./secret-file.ts";

export interface KeysInForce {
  /** A key that the API accepts: the first of `apiKeys`. */
  readonly key: string;
  /** The daemon made it, now or at an earlier start. */
  readonly generated: boolean;
  /** Where a generated key is kept. */
  readonly path?: string;
  readonly apiKeys: readonly ApiKey[];
}

/** The configured keys, or else the one in `api-key` below the data directory, made when there is none. */
export async function ensureApiKey(
  config: Pick<Config, "apiKeys" | "dataDir" | "quotas">,
): Promise<KeysInForce> {
  const [first] = config.apiKeys;
  if (first !== undefined) return { key: first.key, generated: false, apiKeys: config.apiKeys };
  const { secret: key, path } = await ensureSecret({
    directory: config.dataDir,
    name: "api-key",
    make: () => `sk-sandbox-${randomBytes(24).toString("base64url")}`,
    accepts: (text) => keyForm().safeParse(text).success,
    remedy: "remove it for a new key to be made, or set api_key",
    alternative: "set api_key",
  });
  return {
    key,
    generated: true,
    path,
    apiKeys: [{ name: DEFAULT_OWNER, key, scope: "admin", ...config.quotas }],
  };
}
