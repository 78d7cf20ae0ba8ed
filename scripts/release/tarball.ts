/** Tar archives that are the same for the same contents: sorted, with one time and no owners. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { sourceDateEpoch } from "./versions.ts";

const run = promisify(execFile);

export interface TarOptions {
  /** What the paths in the archive begin with instead of `.`. */
  readonly prefix?: string;
  /** Smaller by gzip, which the name must end with then. */
  readonly compress?: boolean;
}

export async function packTarball(
  directory: string,
  file: string,
  { prefix, compress = false }: TarOptions = {},
): Promise<void> {
  await run("tar", [
    "--create",
    `--file=${file}`,
    `--directory=${directory}`,
    "--sort=name",
    "--format=gnu",
    `--mtime=@${sourceDateEpoch()}`,
    "--owner=0",
    "--group=0",
    "--numeric-owner",
    // Whatever the umask of who builds it is.
    "--mode=u=rwX,go=rX",
    ...(prefix === undefined ? [] : [`--transform=flags=rS;s,^\\.,${prefix},`]),
    // Without the name and the time that gzip would write down.
    ...(compress ? ["--use-compress-program=gzip --no-name"] : []),
    ".",
  ]);
}
