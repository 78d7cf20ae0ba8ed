/** Makes an unpacked root filesystem fit for use: mount points, the code user, the small files in /etc. */
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
    // Embedded systems often link /var/tmp to /tmp; a directory of its own does as well.
    if (kind === "missing" || (path === "var/tmp" && kind === "symlink")) {
      await tree.makeDirectory(path, attributes);
      continue;
    }
    // SECURITY: a runtime that mounts over a symlink may be led to the host's directory (threat: linked
    // mount points: runc 1.1.5 wrote device nodes there). Guarded by hostile-images.test.ts.
    throw invalidImage(
      `The image cannot be used: its /${path} is a ${kind} where the sandbox needs a directory to mount on.`,
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

/** The shell to enter for users; an image may have none. */
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
      `The image cannot be used: it has a /work of its own (${kind}), and /work is the sandbox's workspace. Move what is there in the image.`,
    );
  }
  await tree.makeSymlink("work", "workspace", { uid: 0, gid: 0, mode: 0o777 });
}

/** Some images link these files to places that only a full system fills. */
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
    throw invalidImage(`The image cannot be used: its /${path} is a directory and not a file.`);
}
