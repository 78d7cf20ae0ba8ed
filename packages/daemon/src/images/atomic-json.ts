/** Small JSON files that are replaced atomically. */
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { open, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { syncDirectory } from "../sync-directory.ts";
import { systemCode } from "../system-errors.ts";

/** Writes a temporary file, syncs it, then renames it: a reader sees the old content or the new. */
export async function writeJson(path: string, value: unknown): Promise<void> {
  const temporary = `${path}.${randomUUID()}.new`;
  try {
    const file = await open(temporary, "wx", 0o600);
    try {
      await file.writeFile(`${JSON.stringify(value)}\n`);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
  await syncDirectory(dirname(path));
}

/**
 * The value in a file, or undefined if there is no file.
 *
 * Reads synchronously: the kernel has the file cached, every new sandbox reads some, and a round trip
 * to the thread pool takes longer, with one event loop turn per step in a burst of requests.
 */
export async function readJson(path: string): Promise<unknown> {
  try {
    return JSON.parse(readFileSync(path, "utf8")) as unknown;
  } catch (error) {
    if (systemCode(error) === "ENOENT") return undefined;
    throw error;
  }
}
