/** Finds programs on this machine. */
import { access, constants } from "node:fs/promises";
import { delimiter, join } from "node:path";

/** The whole PATH of programs that we start, and the default PATH of sandboxes. */
export const STANDARD_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/** The first program of that name; `first` is searched before the standard directories. */
export async function findProgram(name: string, first?: string): Promise<string | undefined> {
  const directories = STANDARD_PATH.split(delimiter);
  for (const directory of first === undefined ? directories : [first, ...directories]) {
    const path = join(directory, name);
    if (await isExecutable(path)) return path;
  }
  return undefined;
}

export async function isExecutable(path: string): Promise<boolean> {
  return await access(path, constants.X_OK).then(
    () => true,
    () => false,
  );
}
