/** Prepares an unpacked root file system for use: mount points, the code user, the small files in /etc. */
import {
  HOSTNAME,
  HOSTS,
  newGroup,
  newPasswd,
  RESOLV_CONF,
  withCodeGroup,
  withCodeUser,
} from "./account-files.ts";
import { invalidImage } from "./image-failure.ts";
import type { ImageTree, NodeAttributes } from "./image-tree.ts";
import { MOUNT_POINTS, RUNNER_MOUNT_POINT } from "./mount-points.ts";

const MAX_ACCOUNT_FILE_BYTES = 1024 * 1024;
const PUBLIC_FILE: NodeAttributes = { uid: 0, gid: 0, mode: 0o644 };

export async function prepareRootfs(tree: ImageTree): Promise<void> {
  for (const { path, ...attributes } of MOUNT_POINTS) {
    const kind = tree.kind(path);
    if (kind === "directory") continue;
    // Embedded systems often link /var/tmp to /tmp; a separate directory works as well.
    if (kind === "missing" || (path === "var/tmp" && kind === "symlink")) {
      await tree.makeDirectory(path, attributes);
      continue;
    }
    // SECURITY: mounting over a symlink may lead a runtime to the host's directory (threat: linked
    // mount points: runc 1.1.5 wrote device nodes there). Guarded by hostile-images.test.ts.
    throw invalidImage(
      `The image cannot be used: its /${path} is a ${kind}, but the sandbox needs a directory there to mount on.`,
    );
  }
  await tree.writeFile(RUNNER_MOUNT_POINT.path, RUNNER_MOUNT_POINT, "");
  await prepareWork(tree);
  await preparePlainFile(tree, "etc/hosts", HOSTS);
  await preparePlainFile(tree, "etc/hostname", HOSTNAME);
  await preparePlainFile(tree, "etc/resolv.conf", RESOLV_CONF);
  const shell = shellOf(tree);
  await prepareAccounts(tree, "etc/passwd", newPasswd(shell), (text) => withCodeUser(text, shell));
  await prepareAccounts(tree, "etc/group", newGroup(), withCodeGroup);
}

/** The login shell for users; an image may have none. */
function shellOf(tree: ImageTree): string {
  for (const shell of ["bash", "sh"]) {
    if (tree.kind(`bin/${shell}`) !== "missing" || tree.kind(`usr/bin/${shell}`) !== "missing")
      return `/bin/${shell}`;
  }
  return "/sbin/nologin";
}

/** /work is another name of /workspace. */
async function prepareWork(tree: ImageTree): Promise<void> {
  const kind = tree.kind("work");
  const target = tree.readLink("work");
  if (target === "workspace" || target === "/workspace") return;
  if (kind !== "missing" && !(kind === "directory" && (await tree.list("work")).length === 0)) {
    throw invalidImage(
      `The image cannot be used: it contains /work (${kind}), which is reserved for the sandbox's workspace. Move it elsewhere in the image.`,
    );
  }
  await tree.makeSymlink("work", "workspace", { uid: 0, gid: 0, mode: 0o777 });
}

/** Some images link these files to places that exist only on a fully booted system. */
async function preparePlainFile(tree: ImageTree, path: string, text: string): Promise<void> {
  const kind = tree.kind(path);
  if (kind === "file") return;
  refuseDirectory(path, kind);
  await tree.writeFile(path, PUBLIC_FILE, text);
}

async function prepareAccounts(
  tree: ImageTree,
  path: string,
  fresh: string,
  extend: (text: string) => string,
): Promise<void> {
  refuseDirectory(path, tree.kind(path));
  const present = tree.readText(path, MAX_ACCOUNT_FILE_BYTES + 1);
  if (present === undefined) {
    await tree.writeFile(path, PUBLIC_FILE, fresh);
    return;
  }
  if (Buffer.byteLength(present) > MAX_ACCOUNT_FILE_BYTES) {
    throw invalidImage(
      `The image cannot be used: its /${path} is larger than ${MAX_ACCOUNT_FILE_BYTES} bytes.`,
    );
  }
  const extended = extend(present);
  if (extended !== present) await tree.writeFile(path, PUBLIC_FILE, extended);
}

function refuseDirectory(path: string, kind: string): void {
  if (kind === "directory")
    throw invalidImage(`The image cannot be used: its /${path} is a directory, not a file.`);
}
