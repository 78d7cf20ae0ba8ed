/** Small JSON files that are replaced as a whole or not at all. */
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { open, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { syncDirectory } from "../sync-directory.ts";
import { systemCode } from "./image-failure.ts";

/** Writes beside the file, brings it to the disk, then renames: a reader sees the old content or the new. */
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
 * The value in a file, or undefined when there is no file.
 *
 * Waits for the kernel: it has such a file at hand, and every new sandbox asks for some. To come back
 * from another thread takes longer, and in a burst of requests one turn of the loop for each step.
 */
export async function readJson(path: string): Promise<unknown> {
  try {
    return JSON.parse(readFileSync(path, "utf8")) as unknown;
  } catch (error) {
    if (systemCode(error) === "ENOENT") return undefined;
    throw error;
  }
}
