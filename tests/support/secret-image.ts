/** An image with files that only its root may read. */
import { chmod, copyFile, mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { importTree } from "./images.ts";
import type { SandboxMachine } from "./sandbox-machine.ts";

export const SECRET = "for root's eyes only";

/**
 * The reference of the image: `/secret/open/key` in a directory for all, `/secret/closed/key` in
 * one for root.
 */
export async function importImageWithSecret(machine: SandboxMachine): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), "sandkasten-image-"));
  try {
    const root = join(directory, "root");
    await mkdir(join(root, "bin"), { recursive: true });
    await copyFile("/bin/busybox", join(root, "bin/busybox"));
    await symlink("busybox", join(root, "bin/sh"));
    for (const [name, mode] of [
      ["closed", 0o700],
      ["open", 0o755],
    ] as const) {
      await mkdir(join(root, "secret", name), { recursive: true });
      await writeFile(join(root, "secret", name, "key"), SECRET);
      await chmod(join(root, "secret", name, "key"), 0o600);
      await chmod(join(root, "secret", name), mode);
    }
    return await importTree(machine, "test-secret:latest", root);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}
