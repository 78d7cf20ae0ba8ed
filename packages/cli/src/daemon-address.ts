/** Finds the daemon to use, and its key. */
import { access, constants } from "node:fs/promises";
import { join } from "node:path";
import type { Config } from "@sandkasten/daemon/config";
import type { Cli } from "./cli.ts";
import { CliFailure, UsageFailure } from "./failure.ts";
import { loadLocalConfig, localUrl } from "./local-config.ts";
import { profilesFile, readProfiles, requireProfile } from "./profiles.ts";

export interface DaemonAddress {
  readonly url: string;
  readonly apiKey?: string;
}

/** Flags take precedence over variables, then the current profile, then the local configuration. */
export async function findDaemon(cli: Cli): Promise<DaemonAddress> {
  const { environment } = cli.host;
  const options = cli.options();
  if (options.daemon !== undefined) {
    if (options.url !== undefined)
      throw new UsageFailure("--url and --daemon cannot be combined.", "Use one of them.");
    return await ofProfile(cli, options.daemon, options.apiKey);
  }
  const url = options.url ?? environment.url;
  const apiKey = options.apiKey ?? environment.apiKey;
  if (url !== undefined) checkUrl(url);
  if (url !== undefined && apiKey !== undefined) return { url, apiKey };
  // SECURITY: the key in the data directory opens this machine's daemon. It is only sent to that
  // daemon, never to an explicitly named address (threat: unauthorized access; guarded by
  // daemon-address.test.ts).
  if (url !== undefined) return { url };
  // Options for a local configuration mean the daemon of that configuration.
  const isLocal = options.config !== undefined || options.dataDir !== undefined;
  const name = isLocal ? undefined : (environment.profile ?? (await currentProfile(cli)));
  return name === undefined
    ? await ofLocal(cli, apiKey)
    : await ofProfile(cli, name, options.apiKey);
}

async function currentProfile({ host }: Cli): Promise<string | undefined> {
  return (await readProfiles(profilesFile(host.environment))).current;
}

/**
 * SECURITY: a profile's address gets the key of the profile, or that of the flag: a key in the
 * environment is for another daemon (threat: unauthorized access; guarded by profiles.test.ts).
 */
async function ofProfile(cli: Cli, name: string, given?: string): Promise<DaemonAddress> {
  const profiles = await readProfiles(profilesFile(cli.host.environment));
  const profile = requireProfile(profiles, name);
  if (profile === undefined) return await ofLocal(cli, given);
  checkUrl(profile.url);
  const apiKey = given ?? profile.apiKey;
  return { url: profile.url, ...(apiKey !== undefined && { apiKey }) };
}

async function ofLocal(cli: Cli, apiKey: string | undefined): Promise<DaemonAddress> {
  const config = await loadLocalConfig(cli);
  const local = apiKey ?? (await localKey(config));
  return { url: localUrl(config), ...(local !== undefined && { apiKey: local }) };
}

export function checkUrl(url: string): void {
  const parsed = URL.parse(url);
  if (parsed !== null && /^https?:$/.test(parsed.protocol)) return;
  throw new CliFailure(`"${url}" is not a daemon's address.`, {
    hint: "Write it as in http://127.0.0.1:8080.",
    code: "USAGE",
    exitCode: 2,
  });
}

/** The configured key, or the one that the daemon generated; undefined if it never ran. Never generates one. */
async function localKey(config: Config): Promise<string | undefined> {
  const [configured] = config.apiKeys;
  if (configured !== undefined) return configured.key;
  const path = join(config.dataDir, "api-key");
  try {
    await access(path, constants.R_OK);
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw new CliFailure(`The local daemon's key in ${path} cannot be read by this user.`, {
      hint: "Set SANDKASTEN_API_KEY, or run this as the user that the daemon runs as.",
      code: "KEY_UNREADABLE",
      cause,
    });
  }
  const { ensureApiKey } = await import("@sandkasten/daemon/config");
  return (await ensureApiKey(config)).key;
}
