/** Makes new names and renames in a directory survive a power failure. */
import { constants } from "node:fs";
import { open } from "node:fs/promises";

export async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}
