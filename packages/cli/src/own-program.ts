/** How to start this program again, from a clone or an installed package. */
import { extname, relative } from "node:path";
import { fileURLToPath } from "node:url";

/** `.ts` in a clone, `.js` in a package, where all modules are in one directory. */
const extension = extname(import.meta.filename);

/** The file for Node. */
export const PROGRAM = fileURLToPath(new URL(`./main${extension}`, import.meta.url));

/** The command to type. A clone has no `sandkasten` in the PATH. */
export function ownCommand(workingDirectory: string): string {
  if (extension !== ".ts") return "sandkasten";
  const program = fileURLToPath(new URL("../bin/sandkasten", import.meta.url));
  const near = relative(workingDirectory, program);
  return near.startsWith("..") ? program : near;
}
