/**
 * A secret that is generated once, stored in a file that only its owner can read, and reused at
 * every start.
 */
import { randomUUID } from "node:crypto";
import { constants } from "node:fs";
import { link, open, rm } from "node:fs/promises";
import { join } from "node:path";
import { SandboxError } from "@sandkasten/protocol";
import { makeDirectory } from "../make-directory.ts";
import { syncDirectory } from "../sync-directory.ts";

export interface SecretFile {
  readonly directory: string;
  readonly name: string;
  readonly make: () => string;
  readonly accepts: (secret: string) => boolean;
  /** What to do if the file is unusable, besides correcting it. */
  readonly remedy: string;
  /** What to do if the file cannot be written, besides making the directory writable. */
  readonly alternative?: string;
}

export async function ensureSecret(
  file: SecretFile,
): Promise<{ readonly secret: string; readonly path: string }> {
  const path = join(file.directory, file.name);
  try {
    const present = await readSecret(path, file);
    if (present !== undefined) return { secret: present, path };
    await makeDirectory(file.directory, 0o700);
    await createSecret(path, file);
    const made = await readSecret(path, file);
    if (made !== undefined) return { secret: made, path };
  } catch (cause) {
    if (cause instanceof SandboxError) throw cause;
    const reason = (cause as NodeJS.ErrnoException).code ?? String(cause);
    const alternative = file.alternative === undefined ? "" : `, or ${file.alternative}`;
    throw new SandboxError(
      "INTERNAL_ERROR",
      `cannot store a key in ${path} (${reason}); make the directory writable${alternative}`,
      { cause },
    );
  }
  throw unusable(path, "disappeared while it was being created", file);
}

/**
 * SECURITY: only the owner can read the secret, and the file is complete as soon as it has its
 * name: if two daemons start at once, one creates it and both use it (threat: unauthorized access).
 * Guarded by ensure-api-key.test.ts.
 */
async function createSecret(path: string, { directory, make }: SecretFile): Promise<void> {
  const temporary = `${path}.${randomUUID()}.new`;
  try {
    const file = await open(temporary, "wx", 0o600);
    try {
      await file.writeFile(`${make()}\n`);
      await file.sync();
    } finally {
      await file.close();
    }
    await link(temporary, path);
    await syncDirectory(directory);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  } finally {
    await rm(temporary, { force: true });
  }
}

async function readSecret(path: string, kind: SecretFile): Promise<string | undefined> {
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
  const file = await open(path, flags).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return undefined;
    if (error.code === "ELOOP") throw unusable(path, "is a symbolic link", kind);
    throw error;
  });
  if (file === undefined) return undefined;
  try {
    const status = await file.stat();
    if (!status.isFile()) throw unusable(path, "is not a regular file", kind);
    if ((status.mode & 0o077) !== 0)
      throw unusable(path, "is open to other users (chmod 600)", kind);
    const secret = (await file.readFile("utf8")).trimEnd();
    if (!kind.accepts(secret)) throw unusable(path, "contains no valid key", kind);
    return secret;
  } finally {
    await file.close();
  }
}

function unusable(path: string, fault: string, { remedy }: SecretFile): SandboxError {
  return new SandboxError("INVALID_REQUEST", `${path} ${fault}; correct that, ${remedy}`);
}
