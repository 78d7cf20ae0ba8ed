/**
 * Generates the root of the `host` image: the machine's programs, read-only, with a minimal
 * generated /etc.
 *
 * SECURITY: the machine's /etc, /root, /home and /var are not exposed; the files copied from /etc
 * are listed here one by one and hold no secrets: the linker's cache, the public CA
 * certificates, and names of links into /usr (threats: reaching another sandbox and leaked secrets and
 * descriptors). Guarded by host-image.test.ts.
 */
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { ImageInfo, ImageRootfs } from "../ports/image-store.ts";
import { HOSTNAME, HOSTS, newGroup, newPasswd, RESOLV_CONF } from "./account-files.ts";
import { linksIntoUsr, readHostFacts, regularFileContent } from "./host-facts.ts";
import type { HostFacts } from "./host-facts.ts";
import { infoOf } from "./image-library.ts";
import type { ImageLibrary } from "./image-library.ts";
import { ImageTree } from "./image-tree.ts";
import type { NodeAttributes } from "./image-tree.ts";
import { STANDARD_PATH } from "../find-program.ts";
import { MOUNT_POINTS, RUNNER_MOUNT_POINT } from "./mount-points.ts";
import { HOST_REFERENCE } from "./reference.ts";

const PUBLIC_FILE: NodeAttributes = { uid: 0, gid: 0, mode: 0o644 };
const DIRECTORY: NodeAttributes = { uid: 0, gid: 0, mode: 0o755 };
const LINK: NodeAttributes = { uid: 0, gid: 0, mode: 0o777 };
const PLAIN_DIRECTORIES = ["usr", "opt", "mnt", "media", "srv", "var/cache", "var/lib", "var/log"];
const LINKED_DIRECTORIES = ["etc/alternatives", "etc/ssl/certs"];
const COPIED_FILES = ["etc/ld.so.cache", "etc/ssl/certs/ca-certificates.crt"];

const PROFILE = `export PATH=${STANDARD_PATH}:/usr/local/games:/usr/games
umask 022
`;

/** For every PAM service, including `su` and `runuser`: only root can switch users. */
const PAM = `auth sufficient pam_rootok.so
auth required pam_deny.so
account required pam_permit.so
password required pam_deny.so
session required pam_permit.so
`;

const OPENSSL_CNF = `[req]
distinguished_name = req_distinguished_name
[req_distinguished_name]
`;

/** The current host image, created or taken from the library. `machine` is "/" except in tests. */
export async function hostRootfs(
  machine: string,
  library: ImageLibrary,
): Promise<ImageRootfs & { readonly info: ImageInfo }> {
  const facts = readHostFacts(machine);
  const record = await library.ensure(facts.fingerprint, async (rootfs) => {
    await mkdir(rootfs, { mode: 0o700 });
    const tree = new ImageTree(rootfs);
    await buildHostRoot(machine, facts, tree);
    return { sizeBytes: tree.fileBytes, env: {} };
  });
  if (record === undefined)
    throw new Error("The host image disappeared while it was being created.");
  return {
    digest: record.digest,
    env: record.env,
    info: infoOf({ reference: HOST_REFERENCE, source: "host" }, record),
    path: library.directories.rootfsPath(record.digest),
    binds: hostBinds(machine, facts),
  };
}

/** Directories of the machine that are mounted read-only in a sandbox of this image. */
function hostBinds(machine: string, facts: HostFacts): { from: string; to: string }[] {
  return ["usr", ...facts.directories].map((name) => ({
    from: join(machine, name),
    to: `/${name}`,
  }));
}

/** Fills an empty tree. */
async function buildHostRoot(machine: string, facts: HostFacts, tree: ImageTree): Promise<void> {
  await tree.makeDirectory("", DIRECTORY);
  for (const { path, ...attributes } of MOUNT_POINTS) await tree.makeDirectory(path, attributes);
  await tree.writeFile(RUNNER_MOUNT_POINT.path, RUNNER_MOUNT_POINT, "");
  for (const path of [...PLAIN_DIRECTORIES, ...facts.directories])
    await tree.makeDirectory(path, DIRECTORY);
  for (const [name, target] of facts.links) await tree.makeSymlink(name, target, LINK);
  await tree.makeSymlink("work", "workspace", LINK);
  await tree.makeSymlink("var/run", "/run", LINK);

  const texts: Record<string, string> = {
    passwd: newPasswd(facts.shell),
    group: newGroup(),
    hosts: HOSTS,
    hostname: HOSTNAME,
    "resolv.conf": RESOLV_CONF,
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
    shells: facts.shell === "/bin/sh" ? "/bin/sh\n" : `/bin/sh\n${facts.shell}\n`,
    profile: PROFILE,
    "pam.d/other": PAM,
    "ssl/openssl.cnf": OPENSSL_CNF,
  };
  for (const [name, text] of Object.entries(texts))
    await tree.writeFile(`etc/${name}`, PUBLIC_FILE, text);
  await tree.makeSymlink("etc/os-release", "../usr/lib/os-release", LINK);
  await tree.makeSymlink("etc/mtab", "/proc/self/mounts", LINK);
  if (facts.timezoneTarget !== undefined)
    await tree.makeSymlink("etc/localtime", facts.timezoneTarget, LINK);

  for (const directory of LINKED_DIRECTORIES) {
    await tree.makeDirectory(directory, DIRECTORY);
    for (const [name, target] of await linksIntoUsr(machine, directory)) {
      await tree.makeSymlink(`${directory}/${name}`, target, LINK);
    }
  }
  for (const path of COPIED_FILES) {
    const content = await regularFileContent(join(machine, path));
    if (content !== undefined) await tree.writeFile(path, PUBLIC_FILE, chunksOf(content));
  }
}

async function* chunksOf(content: Buffer): AsyncGenerator<Buffer> {
  yield content;
}
