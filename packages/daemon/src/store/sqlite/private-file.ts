/** Creates a file that only the daemon's user can read. */
import { chmod, open } from "node:fs/promises";

export async function makePrivateFile(path: string): Promise<void> {
  try {
    const file = await open(path, "wx", 0o600);
    await file.close();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    await chmod(path, 0o600);
  }
}
