/** A real Debian without documentation and rarely needed files, so it imports quickly. */
import { execFile } from "node:child_process";
import { access, mkdir, mkdtemp, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { debianRootfs } from "../../packages/daemon/src/images/testing/debian-rootfs.ts";
import { packTree } from "./images.ts";

const run = promisify(execFile);
const CACHE_DIR = process.env["SANDKASTEN_TEST_CACHE"] ?? "/var/cache/sandkasten-test";

const LEFT_OUT = [
  ..."dev var/cache var/lib/dpkg usr/lib/python3 usr/share/python-wheels".split(" "),
  ..."doc info locale man perl zoneinfo".split(" ").map((name) => `usr/share/${name}`),
  ..."gconv perl".split(" ").map((name) => `usr/lib/*/${name}`),
];

/** The path of a tarball, built once per machine and cached next to the full one. */
export async function smallDebianRootfs(): Promise<string> {
  const whole = await debianRootfs(CACHE_DIR);
  if (whole === undefined)
    throw new Error(`no Debian root can be kept in ${CACHE_DIR}; set SANDKASTEN_TEST_CACHE`);
  const small = join(dirname(whole), "bookworm-small-python.tar");
  const isThere = await access(small).then(
    () => true,
    () => false,
  );
  if (isThere) return small;
  const directory = await mkdtemp(join(dirname(whole), ".small-"));
  try {
    const root = join(directory, "root");
    await mkdir(root);
    const excludes = LEFT_OUT.map((path) => `--exclude=./${path}`);
    await run("tar", ["--extract", "--file", whole, "--directory", root, ...excludes]);
    await rename(await packTree(root), small);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
  return small;
}
