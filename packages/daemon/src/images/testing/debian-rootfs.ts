/** A real Debian root filesystem, built once per machine and kept. */
import { execFile } from "node:child_process";
import { access, mkdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";

const execFileAsync = promisify(execFile);
const SUITE = "bookworm";
/** What our own images install, so that nothing is left to install where there is no network. */
const PACKAGES = ["ca-certificates", "procps", "python3", "python3-pip", "python3-venv"];

/**
 * The path of a small Debian tarball below `cacheDir`. It is built when it is missing, which takes
 * about half a minute and needs the package mirror; undefined when it may not be kept there. Several
 * may ask at once, also from several processes: each builds its own, and any of them will do.
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

async function exists(path: string): Promise<boolean> {
  return await access(path).then(
    () => true,
    () => false,
  );
}
