/** Small root file systems for tests, made from programs of this machine. */
import { execFile } from "node:child_process";
import { chmod, copyFile, mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { promisify } from "node:util";
import type { ImageStore } from "@sandkasten/daemon";

const run = promisify(execFile);

/**
 * `busybox`: one static program that is also `sh`. `dash`: no bash. `bare`: no shell at all.
 * `musl`: busybox, and a program that needs the loader of musl.
 */
export type SmallImage = "busybox" | "dash" | "bare" | "musl";

/** An embedded backend or a whole machine: something that can import images. */
interface WithImages {
  readonly images: ImageStore;
}

const APPLETS = ["cat", "echo", "env", "id", "kill", "ls", "mkdir", "printf", "ps", "rm", "setsid"];
const MORE_APPLETS = [
  "sha256sum",
  "sleep",
  "stty",
  "true",
  "false",
  "wc",
  "head",
  "tail",
  "tr",
  "yes",
  "dd",
];

/** Imports the image and returns the reference for creating sandboxes. */
export async function importSmallImage(embedded: WithImages, image: SmallImage): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), "sandkasten-image-"));
  try {
    const root = join(directory, "root");
    await fillSmallRoot(root, image);
    return await importTree(embedded, `test-${image}:latest`, root);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

/** Imports a directory as an image, with everything owned by root. */
export async function importTree(
  { images }: WithImages,
  name: string,
  root: string,
): Promise<string> {
  await images.importRootfs(name, await packTree(root));
  return (await images.resolve(name)).reference;
}

/** Packs a directory, with everything owned by root, and returns the archive's path. */
export async function packTree(root: string): Promise<string> {
  const tarball = `${root}.tar`;
  const owners = ["--numeric-owner", "--owner=0", "--group=0"];
  await run("tar", [...owners, "-C", root, "-cf", tarball, "."]);
  return tarball;
}

/** Writes the files of a small image below a directory, which is created. */
export async function fillSmallRoot(root: string, image: SmallImage): Promise<void> {
  await mkdir(join(root, "bin"), { recursive: true });
  if (image === "bare") {
    // The program under its own name only: there is no `sh`.
    await install("/bin/busybox", join(root, "bin/busybox"));
    return;
  }
  await install("/bin/busybox", join(root, "bin/busybox"));
  for (const applet of [...APPLETS, ...MORE_APPLETS])
    await symlink("busybox", join(root, "bin", applet));
  if (image === "busybox" || image === "musl") {
    await symlink("busybox", join(root, "bin/sh"));
    if (image === "musl") await installMuslProgram(root);
    return;
  }
  await install("/bin/dash", join(root, "bin/sh"));
  const { stdout } = await run("ldd", ["/bin/dash"]);
  for (const [library] of stdout.matchAll(/\/\S+/gu)) {
    // The loader is found by its own path, other libraries in /lib.
    const place = basename(library).startsWith("ld-") ? library : join("/lib", basename(library));
    await install(library, join(root, place));
  }
}

async function installMuslProgram(root: string): Promise<void> {
  const source = join(root, "hello.c");
  await writeFile(source, '#include <stdio.h>\nint main(void) { puts("hello from musl"); }\n');
  await run("musl-gcc", ["-o", join(root, "bin/hello"), source]);
  const { stdout } = await run("readelf", ["-p", ".interp", join(root, "bin/hello")]);
  const loader = /\/lib\/ld-musl-\S+/u.exec(stdout)?.[0];
  if (loader === undefined) throw new Error(`musl-gcc made no program of musl: ${stdout}`);
  await install(loader, join(root, loader));
  await rm(source);
}

async function install(from: string, to: string): Promise<void> {
  await mkdir(dirname(to), { recursive: true });
  await copyFile(from, to);
  await chmod(to, 0o755);
}
