/** What a command in another terminal needs to reach the daemon that was started here. */
import type { Daemon } from "@sandkasten/daemon";
import type { Config } from "@sandkasten/daemon/config";
import type { GlobalOptions } from "./cli.ts";
import type { Environment } from "./environment.ts";
import { quoted } from "./exec-options.ts";

/** Placeholder for a key that must not be shown. */
export const KEY_PLACEHOLDER = "<your key>";

/** How the configuration was found. */
interface Starter {
  readonly host: { readonly environment: Pick<Environment, "variables"> };
  readonly options: () => Pick<GlobalOptions, "config">;
}

/** The configuration that a client needs. */
const NEEDED: ReadonlySet<string> = new Set(["listen", "data_dir", "api_key", "api_keys"]);

/** Variables to put before a command; empty if it finds the daemon by itself. */
export function addressForOthers(
  starter: Starter,
  config: Config,
  { url, apiKey, apiKeyGenerated }: Pick<Daemon, "url" | "apiKey" | "apiKeyGenerated">,
): string {
  const key = apiKeyGenerated ? apiKey : KEY_PLACEHOLDER;
  return isFound(starter, config) ? "" : `SANDKASTEN_URL=${url} SANDKASTEN_API_KEY=${quoted(key)} `;
}

/**
 * Another terminal knows the defaults and the file in its default location, but not our flags and
 * variables.
 */
function isFound({ host, options }: Starter, { listen, settings }: Config): boolean {
  const { SANDKASTEN_CONFIG: named = "" } = host.environment.variables;
  // Port 0 became another port, which is recorded nowhere.
  if (options().config !== undefined || named !== "" || listen.port === 0) return false;
  return settings
    .filter(({ key }) => NEEDED.has(key))
    .every(({ source }) => source.kind === "default" || source.kind === "file");
}
