/** Makes a key for a daemon that was given none, once, and finds it again. */
import { randomBytes, randomUUID } from "node:crypto";
import { constants } from "node:fs";
import { link, open, rm } from "node:fs/promises";
import { join } from "node:path";
import { SandboxError } from "@sandkasten/protocol";
import { makeDirectory } from "../make-directory.ts";
import { DEFAULT_OWNER } from "./config.ts";
import type { ApiKey, Config } from "./config.ts";
import { apiKey as keyForm } from "./kinds.ts";

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
  const path = join(config.dataDir, "api-key");
  const key = await keyAt(config.dataDir, path);
  return {
    key,
    generated: true,
    path,
    apiKeys: [{ name: DEFAULT_OWNER, key, isAdmin: true, ...config.quotas }],
  };
}

async function keyAt(dataDir: string, path: string): Promise<string> {
  try {
    const present = await readKey(path);
    if (present !== undefined) return present;
    await makeDirectory(dataDir, 0o700);
    await createKey(dataDir, path);
    const made = await readKey(path);
    if (made !== undefined) return made;
  } catch (cause) {
    if (cause instanceof SandboxError) throw cause;
    const reason = (cause as NodeJS.ErrnoException).code ?? String(cause);
    throw new SandboxError(
      "INTERNAL_ERROR",
      `no key could be kept in ${path} (${reason}); make the directory writable, or set api_key`,
      { cause },
    );
  }
  throw unusable(path, "vanished while it was being made");
}

/**
 * SECURITY: the key is unguessable, for its owner's eyes alone, and complete from the moment it has
 * its name: of two daemons that start at once, one makes it and both use it (threat 49). Guarded by
 * ensure-api-key.test.ts.
 */
async function createKey(dataDir: string, path: string): Promise<void> {
  const temporary = `${path}.${randomUUID()}.new`;
  try {
    const file = await open(temporary, "wx", 0o600);
    try {
      await file.writeFile(`sk-sandbox-${randomBytes(24).toString("base64url")}\n`);
      await file.sync();
    } finally {
      await file.close();
    }
    await link(temporary, path);
    await syncDirectory(dataDir);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  } finally {
    await rm(temporary, { force: true });
  }
}

async function readKey(path: string): Promise<string | undefined> {
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
  const file = await open(path, flags).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return undefined;
    if (error.code === "ELOOP") throw unusable(path, "is a symbolic link");
    throw error;
  });
  if (file === undefined) return undefined;
  try {
    const status = await file.stat();
    if (!status.isFile()) throw unusable(path, "is not a regular file");
    if ((status.mode & 0o077) !== 0) throw unusable(path, "is open to other users (chmod 600)");
    const key = (await file.readFile("utf8")).trimEnd();
    if (!keyForm().safeParse(key).success) throw unusable(path, "holds no key");
    return key;
  } finally {
    await file.close();
  }
}

function unusable(path: string, fault: string): SandboxError {
  return new SandboxError(
    "INVALID_REQUEST",
    `${path} ${fault}; correct that, remove it for a new key to be made, or set api_key`,
  );
}

/** Makes a new name in a directory survive a power cut. */
async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}
