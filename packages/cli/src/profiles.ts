/** The file with several daemons by name, with the key for each. */
import { randomUUID } from "node:crypto";
import { open, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { makeDirectory } from "@sandkasten/daemon/make-directory";
import type { Environment } from "./environment.ts";
import { CliFailure } from "./failure.ts";
import { localFailure } from "./local-failure.ts";

export interface Profile {
  readonly url: string;
  readonly apiKey?: string;
}

export interface Profiles {
  /** Used if a command names no daemon; the local one when absent. */
  readonly current?: string;
  readonly byName: ReadonlyMap<string, Profile>;
}

/** Means the daemon of the local configuration and cannot name another one. */
export const LOCAL_PROFILE = "local";
export const PROFILE_NAME = /^[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?$/;
const OTHERS = 0o077;
const CHECK_FILE = "Correct the file, or remove it and add the profiles again.";

export function profilesFile({ configHome }: Pick<Environment, "configHome">): string {
  return join(configHome, "sandkasten", "profiles.yaml");
}

/** Empty if there is no file. */
export async function readProfiles(path: string): Promise<Profiles> {
  const text = await readPrivate(path);
  if (text === undefined) return { byName: new Map() };
  // Loaded on demand: most users have no such file.
  const { parse } = await import("yaml");
  let content: unknown;
  try {
    content = parse(text);
  } catch (cause) {
    throw invalid(path, "is not valid YAML", cause);
  }
  const { current, profiles } = Object(content) as { current?: unknown; profiles?: unknown };
  const byName = new Map(
    Object.entries(Object(profiles)).map(([name, entry]) => {
      const { url, api_key: apiKey } = Object(entry) as { url?: unknown; api_key?: unknown };
      if (typeof url !== "string") throw invalid(path, `has no url for the profile ${name}`);
      if (apiKey !== undefined && typeof apiKey !== "string")
        throw invalid(path, `has an api_key that is not text for the profile ${name}`);
      return [name, { url, ...(apiKey !== undefined && { apiKey }) }] as const;
    }),
  );
  return { byName, ...(typeof current === "string" && { current }) };
}

/**
 * SECURITY: the file contains keys. It is only accessible to its owner, and one that others can
 * read or write is refused, because they could read the keys or name a daemon that collects them
 * (threat: unauthorized access; guarded by profiles.test.ts).
 */
async function readPrivate(path: string): Promise<string | undefined> {
  try {
    await using file = await open(path, "r");
    const { mode, uid } = await file.stat();
    if ((mode & OTHERS) !== 0 || uid !== process.geteuid?.())
      throw new CliFailure(`Other users can access ${path}, which contains keys.`, {
        hint: `Run \`chmod 600 ${path}\`, and create new keys if others may have read them.`,
        code: "LOCAL_FILE",
      });
    return await file.readFile("utf8");
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    if (cause instanceof CliFailure) throw cause;
    throw localFailure(path, cause as NodeJS.ErrnoException, "Check the path on this machine.");
  }
}

/** Atomic: a reader sees the old profiles or the new ones. */
export async function writeProfiles(path: string, { current, byName }: Profiles): Promise<void> {
  const { stringify } = await import("yaml");
  const entries = [...byName].map(
    ([name, { url, apiKey }]) =>
      [name, { url, ...(apiKey !== undefined && { api_key: apiKey }) }] as const,
  );
  const text = stringify({
    ...(current !== undefined && { current }),
    profiles: Object.fromEntries(entries),
  });
  const temporary = `${path}.${randomUUID()}`;
  try {
    await makeDirectory(join(path, ".."), 0o700);
    {
      await using file = await open(temporary, "wx", 0o600);
      await file.writeFile(text);
    }
    await rename(temporary, path);
  } catch (cause) {
    throw localFailure(path, cause as NodeJS.ErrnoException, "Check the path on this machine.");
  } finally {
    await rm(temporary, { force: true });
  }
}

/** The profile with a name; undefined for the local daemon. */
export function requireProfile({ byName }: Profiles, name: string): Profile | undefined {
  if (name === LOCAL_PROFILE) return undefined;
  const profile = byName.get(name);
  if (profile !== undefined) return profile;
  throw new CliFailure(`There is no profile ${name}.`, {
    hint: "`sandkasten profile list` shows the profiles, `sandkasten profile add` adds one.",
    code: "PROFILE_NOT_FOUND",
    exitCode: 2,
  });
}

function invalid(path: string, problem: string, cause?: unknown): CliFailure {
  return new CliFailure(`${path} ${problem}.`, { hint: CHECK_FILE, code: "LOCAL_FILE", cause });
}
