/** What the command line reads from the environment; the only place that does. */
import { statSync } from "node:fs";
import { homedir } from "node:os";
import { isAbsolute, join } from "node:path";

export interface Environment {
  /** The daemon's address and key. */
  readonly url?: string;
  readonly apiKey?: string;
  /** Name of the profile with both. */
  readonly profile?: string;
  /** The directory of the profiles file. */
  readonly configHome: string;
  /** The agent service's address and key. */
  readonly agentsUrl?: string;
  readonly agentsApiKey?: string;
  /** Whether a terminal gets colours. */
  readonly colours: boolean;
  readonly home: string;
  readonly isRoot: boolean;
  /** All variables, for the daemon's own configuration. */
  readonly variables: Readonly<Record<string, string | undefined>>;
}

export function readEnvironment(
  variables: Readonly<Record<string, string | undefined>> = process.env,
): Environment {
  const {
    SANDKASTEN_URL: url,
    SANDKASTEN_API_KEY: apiKey,
    SANDKASTEN_PROFILE: profile,
  } = variables;
  const home = variables["HOME"] ?? homedir();
  const xdg = variables["XDG_CONFIG_HOME"] ?? "";
  const { SANDKASTEN_AGENTS_URL: agentsUrl, SANDKASTEN_AGENTS_API_KEY: agentsApiKey } = variables;
  const noColour = variables["NO_COLOR"] ?? "";
  return {
    ...(url !== undefined && url !== "" && { url }),
    ...(apiKey !== undefined && apiKey !== "" && { apiKey }),
    ...(agentsUrl !== undefined && agentsUrl !== "" && { agentsUrl }),
    ...(agentsApiKey !== undefined && agentsApiKey !== "" && { agentsApiKey }),
    colours: noColour === "" && variables["TERM"] !== "dumb",
    ...(profile !== undefined && profile !== "" && { profile }),
    configHome: isAbsolute(xdg) ? xdg : join(home, ".config"),
    home,
    isRoot: process.geteuid?.() === 0,
    variables,
  };
}

/**
 * Where Node caches the compiled program between runs; undefined for nowhere.
 *
 * SECURITY: anyone who can write there runs code as us. So neither the shared /tmp, which is Node's
 * default, nor a home directory of another user, as `sudo` may leave it in HOME (threat: unauthorized
 * access; guarded by environment.test.ts).
 */
export function compileCacheDirectory(
  variables: Readonly<Record<string, string | undefined>> = process.env,
): string | undefined {
  const xdg = variables["XDG_CACHE_HOME"] ?? "";
  const home = variables["HOME"] ?? "";
  const base = isAbsolute(xdg) ? xdg : isAbsolute(home) ? join(home, ".cache") : undefined;
  if (base === undefined) return undefined;
  const owner = statSync(isAbsolute(xdg) ? xdg : home, { throwIfNoEntry: false })?.uid;
  return owner === process.geteuid?.() ? join(base, "sandkasten", "compiled") : undefined;
}
