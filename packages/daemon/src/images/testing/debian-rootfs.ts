/** A real Debian root file system, built once per machine and cached. */
import { execFile } from "node:child_process";
import { mkdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { exists } from "../../exists.ts";

const execFileAsync = promisify(execFile);
const SUITE = "bookworm";
/** The packages that our own images install, so none are missing without a network. */
const PACKAGES = ["ca-certificates", "procps", "python3", "python3-pip", "python3-venv"];

/**
 * The path of a small Debian tarball below `cacheDir`. It is built if missing, which takes about
 * half a minute and needs the package mirror; undefined if it cannot be stored there. Concurrent
 * callers, even in several processes, each build one, and any of them will do.
 */
export async function debianRootfs(
  cacheDir: string,
  packages: readonly string[] = PACKAGES,
): Promise<string | undefined> {
  const directory = join(cacheDir, "rootfs");
  const tarball = join(directory, `${[SUITE, ...packages].join("-")}.tar`);
  if (await exists(tarball)) return tarball;
  const made = await mkdir(directory, { recursive: true }).then(
    () => true,
    () => false,
  );
  if (!made) return undefined;
  const unfinished = join(directory, `.${process.pid}.tar`);
  try {
    const include = packages.map((name) => `--include=${name}`);
    await execFileAsync("mmdebstrap", ["--variant=minbase", ...include, SUITE, unfinished], {
      timeout: 10 * 60_000,
    });
    await rename(unfinished, tarball);
  } finally {
    await rm(unfinished, { force: true });
  }
  return tarball;
}
