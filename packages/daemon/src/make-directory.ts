/** Creates a directory and its parents, as `mkdir -p` does. */
import { mkdir, stat } from "node:fs/promises";
import { dirname, resolve } from "node:path";

/**
 * Node's own `recursive` never returns where the kernel refuses a new directory with ENOENT, as
 * below /proc, and the process then cannot even be stopped.
 */
export async function makeDirectory(path: string, mode: number): Promise<void> {
  const missing: string[] = [];
  for (let at = resolve(path); !(await isThere(at)); at = dirname(at)) missing.unshift(at);
  for (const directory of missing)
    await mkdir(directory, mode).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "EEXIST") throw error;
    });
  if (!(await stat(path)).isDirectory())
    throw Object.assign(new Error(`${path} is not a directory`), { code: "ENOTDIR" });
}

async function isThere(path: string): Promise<boolean> {
  return await stat(path).then(
    () => true,
    (error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") return false;
      throw error;
    },
  );
}
