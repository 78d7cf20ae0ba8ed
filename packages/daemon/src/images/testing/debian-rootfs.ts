/** A real Debian root filesystem, built once per machine and kept. */
import { execFile } from "node:child_process";
import { access, mkdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";

const execFileAsync = promisify(execFile);
const SUITE = "bookworm";
/** Left out of images for containers, as everywhere. */
const DOCUMENTATION = ["doc", "info", "locale", "man"];

/**
 * The path of a minimal Debian tarball below `cacheDir`; with more packages if wanted, and then
 * without documentation. It is built when it is missing, which takes about half a minute and needs
 * the package mirror; undefined when it may not be kept there.
 */
export async function debianRootfs(
  cacheDir: string,
  packages: readonly string[] = [],
): Promise<string | undefined> {
  const directory = join(cacheDir, "rootfs");
  const tarball = join(directory, `${[SUITE, "minbase", ...packages].join("-")}.tar`);
  if (await exists(tarball)) return tarball;
  const made = await mkdir(directory, { recursive: true }).then(
    () => true,
    () => false,
  );
  if (!made) return undefined;
  const unfinished = join(directory, `.${process.pid}.tar`);
  try {
    const include = packages.map((name) => `--include=${name}`);
    const exclude = DOCUMENTATION.map((name) => `--dpkgopt=path-exclude=/usr/share/${name}/*`);
    const options = packages.length === 0 ? [] : [...include, ...exclude];
    await execFileAsync("mmdebstrap", ["--variant=minbase", ...options, SUITE, unfinished], {
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
