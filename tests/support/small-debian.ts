/**
 * Real Debian systems, reduced to what programs commonly need, so that engines import them quickly.
 */
import { execFile } from "node:child_process";
import { cp, mkdir, mkdtemp, realpath, rename, rm, symlink } from "node:fs/promises";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { exists } from "../../packages/daemon/src/exists.ts";
import { debianRootfs } from "../../packages/daemon/src/images/testing/debian-rootfs.ts";
import { packTree } from "./images.ts";

const run = promisify(execFile);
const CACHE_DIR = process.env["SANDKASTEN_TEST_CACHE"] ?? "/var/cache/sandkasten-test";

const NEEDED_BY_FEW = [
  ..."dev var/cache var/lib/dpkg".split(" "),
  ..."doc info locale man perl zoneinfo".split(" ").map((name) => `usr/share/${name}`),
  ..."gconv perl".split(" ").map((name) => `usr/lib/*/${name}`),
];
const PIP = ["usr/lib/python3", "usr/share/python-wheels"];

/** What the network suite runs, besides this machine's Node and Go. */
const PROGRAMS = ["curl", "git", "openssl", "postgresql-client", "python3-pip", "wget"];
const DEBIAN_MODULES = "/usr/share/nodejs";
const GO = "/usr/local/go";

/** The path of a tarball, built once per machine and cached next to the full one. */
export async function smallDebianRootfs(): Promise<string> {
  const whole = await keptRootfs();
  return await kept(whole, "bookworm-small-python.tar", [...NEEDED_BY_FEW, ...PIP]);
}

/** The same with all programs that the network suite runs. */
export async function programsRootfs(): Promise<string> {
  const whole = await keptRootfs(["ca-certificates", "procps", ...PROGRAMS]);
  const name = `bookworm-programs-node-${process.versions.node}.tar`;
  return await kept(whole, name, NEEDED_BY_FEW, addOwnPrograms);
}

async function keptRootfs(packages?: readonly string[]): Promise<string> {
  const whole = await debianRootfs(CACHE_DIR, packages);
  if (whole === undefined)
    throw new Error(`no Debian root can be kept in ${CACHE_DIR}; set SANDKASTEN_TEST_CACHE`);
  return whole;
}

async function kept(
  whole: string,
  name: string,
  leftOut: readonly string[],
  add: (root: string) => Promise<void> = () => Promise.resolve(),
): Promise<string> {
  const small = join(dirname(whole), name);
  if (await exists(small)) return small;
  const directory = await mkdtemp(join(dirname(whole), ".small-"));
  try {
    const root = join(directory, "root");
    await mkdir(root);
    const excludes = leftOut.map((path) => `--exclude=./${path}`);
    await run("tar", ["--extract", "--file", whole, "--directory", root, ...excludes]);
    await add(root);
    await rename(await packTree(root), small);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
  return small;
}

/** Node and npm of this machine, and the part of Go that fetches modules. */
async function addOwnPrograms(root: string): Promise<void> {
  await cp(process.execPath, join(root, "usr/bin/node"));
  await run("strip", [join(root, "usr/bin/node")]);
  const { stdout } = await run("which", ["npm"]);
  const npm = await realpath(stdout.trim());
  const home = dirname(dirname(npm));
  // Debian's npm has its libraries next to it.
  const tree = dirname(home) === DEBIAN_MODULES ? DEBIAN_MODULES : home;
  await cp(tree, join(root, tree), { recursive: true });
  await symlink(npm, join(root, "usr/bin/npm"));
  if (!(await exists(GO))) return;
  await mkdir(join(root, GO, "bin"), { recursive: true });
  for (const name of ["VERSION", "go.env", "bin/go"])
    await cp(join(GO, name), join(root, GO, name));
}
