/** Opens the files of an unpacked archive or download, and verifies their digests. */
import { createHash } from "node:crypto";
import { constants } from "node:fs";
import { open } from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";
import { readFrom } from "./decompress.ts";
import { invalidImage } from "./image-failure.ts";
import { systemCode } from "../system-errors.ts";
import { shown } from "./image-path.ts";
import { MAX_DOCUMENT_BYTES } from "./oci-manifest.ts";

/**
 * Runs work on an open regular file. Only a path that the operator gave may be a link to one.
 *
 * SECURITY: a link, a pipe or a device in place of the file is refused without blocking on it
 * (threat: hostile archives and images). Guarded by oci-archive.test.ts.
 */
export async function withRegularFile<T>(
  path: string,
  name: string,
  work: (file: FileHandle, sizeBytes: number) => Promise<T>,
  options: { readonly followLinks?: boolean } = {},
): Promise<T> {
  const noFollow = options.followLinks === true ? 0 : constants.O_NOFOLLOW;
  let file: FileHandle;
  try {
    file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK | noFollow);
  } catch (error) {
    if (["ENOENT", "ENOTDIR", "ELOOP", "ENXIO", "EACCES"].includes(systemCode(error) ?? "")) {
      throw invalidImage(
        `${name} cannot be opened (${systemCode(error)}): it is missing or not a regular file.`,
        { cause: error },
      );
    }
    throw error;
  }
  try {
    const stats = await file.stat();
    if (!stats.isFile()) throw invalidImage(`${name} is not a regular file.`);
    return await work(file, stats.size);
  } finally {
    await file.close();
  }
}

export async function digestOf(file: FileHandle): Promise<string> {
  const hash = createHash("sha256");
  for await (const chunk of readFrom(file, 0)) hash.update(chunk);
  return `sha256:${hash.digest("hex")}`;
}

/** Reads a whole small file; with `digest` only if the digest matches. */
export async function readDocument(path: string, what: string, digest?: string): Promise<Buffer> {
  return await withRegularFile(path, `The image's ${what}`, async (file, sizeBytes) => {
    if (sizeBytes > MAX_DOCUMENT_BYTES)
      throw invalidImage(`The image's ${what} has ${sizeBytes} bytes, which is too large.`);
    const content = await file.readFile();
    if (digest !== undefined) checkDigest(what, digest, digestOfBytes(content));
    return content;
  });
}

export function digestOfBytes(content: Buffer): string {
  return `sha256:${createHash("sha256").update(content).digest("hex")}`;
}

export function checkDigest(what: string, expected: string, actual: string): void {
  if (expected !== actual) {
    throw invalidImage(
      `The image's ${what} has the wrong digest: expected ${shown(expected)}, found ${actual}.`,
    );
  }
}
