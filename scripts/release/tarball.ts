/** Reproducible tar archives: sorted, with one time and one owner. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { sourceDateEpoch } from "./versions.ts";

const run = promisify(execFile);

export interface TarOptions {
  /** The prefix of paths in the archive, instead of `.`. */
  readonly prefix?: string;
  /** Compress with gzip; the name must match. */
  readonly compress?: boolean;
  /** The user and group id of everything, 0 by default. */
  readonly owner?: number;
  readonly mode?: string;
  /** Only these directories, without their contents and parents. */
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
    // Independent of the builder's umask.
    `--mode=${mode}`,
    ...(prefix === undefined ? [] : [`--transform=flags=rS;s,^\\.,${prefix},`]),
    // Without the name and time that gzip would store.
    ...(compress ? ["--use-compress-program=gzip --no-name"] : []),
    ...(directories === undefined ? ["."] : ["--no-recursion", ...directories]),
  ]);
}

export async function unpackTarball(file: string, directory: string): Promise<void> {
  await run("tar", ["--extract", `--file=${file}`, `--directory=${directory}`]);
}
