/** Generates a key once for a daemon without a configured one, and reads it on later starts. */
import { randomBytes } from "node:crypto";
import { DEFAULT_OWNER } from "./config.ts";
import type { ApiKey, Config } from "./config.ts";
import { apiKey as keyForm } from "./kinds.ts";
import { ensureSecret } from "./secret-file.ts";

export interface KeysInForce {
  /** A key that the API accepts: the first of `apiKeys`. */
  readonly key: string;
  /** The daemon generated it, now or at an earlier start. */
  readonly generated: boolean;
  /** Where a generated key is stored. */
  readonly path?: string;
  readonly apiKeys: readonly ApiKey[];
}

/** The configured keys, or else the one in `api-key` below the data directory, generated if missing. */
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
    remedy: "remove it to generate a new key, or set api_key",
    alternative: "set api_key",
  });
  return {
    key,
    generated: true,
    path,
    apiKeys: [{ name: DEFAULT_OWNER, key, scope: "admin", ...config.quotas }],
  };
}
