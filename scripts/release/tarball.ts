/** Tar archives that are the same for the same contents: sorted, with one time and one owner. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { sourceDateEpoch } from "./versions.ts";

const run = promisify(execFile);

export interface TarOptions {
  /** What the paths in the archive begin with instead of `.`. */
  readonly prefix?: string;
  /** Smaller by gzip, which the name must end with then. */
  readonly compress?: boolean;
  /** The id of the user and the group that everything belongs to, 0 by default. */
  readonly owner?: number;
  readonly mode?: string;
  /** Only these directories, without what is in them and above them. */
  readonly directories?: readonly string[];
}

export async function packTarball(
  directory: string,
  file: string,
  options: TarOptions = {},
): Promise<void> {
  const { prefix, compress = false, owner = 0, mode = "u=rwX,go=rX", directories } = options;
  await run("tar", [
    "--create",
    `--file=${file}`,
    `--directory=${directory}`,
    "--sort=name",
    "--format=gnu",
    `--mtime=@${sourceDateEpoch()}`,
    `--owner=${owner}`,
    `--group=${owner}`,
    "--numeric-owner",
    // Whatever the umask of who builds it is.
    `--mode=${mode}`,
    ...(prefix === undefined ? [] : [`--transform=flags=rS;s,^\\.,${prefix},`]),
    // Without the name and the time that gzip would write down.
    ...(compress ? ["--use-compress-program=gzip --no-name"] : []),
    ...(directories === undefined ? ["."] : ["--no-recursion", ...directories]),
  ]);
}

export async function unpackTarball(file: string, directory: string): Promise<void> {
  await run("tar", ["--extract", `--file=${file}`, `--directory=${directory}`]);
}
