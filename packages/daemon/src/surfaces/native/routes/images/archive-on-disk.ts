/** Stores an image in a temporary file on its way into the image store. */
import { createWriteStream } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { SandboxError } from "@sandkasten/protocol";
import { isFullDisk } from "../../../../system-errors.ts";

/** Prefix of directories that hold an incoming image. */
export const IMPORT_PREFIX = "import-";

export async function withArchiveOnDisk<T>(
  uploadDir: string,
  bytes: AsyncIterable<Uint8Array>,
  /** The client's name for the archive, as in "that was sent". */
  shown: string,
  use: (path: string) => Promise<T>,
): Promise<T> {
  const directory = await mkdtemp(join(uploadDir, IMPORT_PREFIX));
  try {
    const archive = join(directory, "archive");
    await pipeline(bytes, createWriteStream(archive, { mode: 0o600 }));
    return await use(archive);
  } catch (error) {
    throw withoutPath(error, directory, shown);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

/** The client must not learn the path of our file. */
function withoutPath(error: unknown, directory: string, shown: string): unknown {
  if (isFullDisk(error))
    return new SandboxError("STORAGE_FULL", "the daemon's disk is full", { cause: error });
  if (!(error instanceof SandboxError) || !error.message.includes(directory)) return error;
  const message = error.message.replaceAll(join(directory, "archive"), shown);
  return new SandboxError(error.code, message.replaceAll(directory, `(${shown})`), {
    cause: error,
  });
}
