/** Where the machine's programs are. */
import { access, constants } from "node:fs/promises";
import { delimiter, join } from "node:path";

/** All that programs we start get to see of an environment, and where sandboxes look by default. */
export const STANDARD_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/** The first of these directories' programs of that name; those in `first` hide the machine's. */
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
