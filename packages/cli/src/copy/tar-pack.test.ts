import { execFile } from "node:child_process";
import { chmod, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach, expect, it } from "vitest";
import { contentBytes, packDirectory } from "./tar-pack.ts";
import { unpackArchive } from "./tar-unpack.ts";

let scratch: string;
beforeEach(async () => {
  scratch = await mkdtemp(join(tmpdir(), "sandkasten-cli-"));
});
afterEach(async () => {
  await rm(scratch, { recursive: true, force: true });
});

const LONG = `${"long-".repeat(30)}name`;

async function makeTree(): Promise<string> {
  const root = join(scratch, "from");
  await mkdir(join(root, "empty"), { recursive: true });
  await mkdir(join(root, "ünï/deep"), { recursive: true });
  await writeFile(
    join(root, "binary"),
    Buffer.from(Array.from({ length: 1000 }, (_, i) => i % 256)),
  );
  await writeFile(join(root, "blank"), "");
  await writeFile(join(root, "block"), "x".repeat(512));
  await writeFile(join(root, "ünï/deep", LONG), "long");
  await writeFile(join(root, "script"), "#!/bin/sh\n");
  await chmod(join(root, "script"), 0o755);
  await symlink("../binary", join(root, "ünï/link"));
  return root;
}

async function archiveOf(root: string): Promise<Buffer> {
  return Buffer.concat(await Array.fromAsync(packDirectory(root)));
}

it("packDirectory() writes archives that the system's tar can read", async () => {
  const root = await makeTree();
  const archive = join(scratch, "out.tar");
  await writeFile(archive, await archiveOf(root));
  const to = join(scratch, "to");
  await mkdir(to);
  await promisify(execFile)("tar", ["-xf", archive, "-C", to]);
  await promisify(execFile)("diff", ["-r", "--no-dereference", root, to]);
  const { stdout } = await promisify(execFile)("stat", ["-c", "%a", join(to, "script")]);
  expect(stdout.trim()).toBe("755");
});

it("packDirectory() and unpackArchive() are inverse", async () => {
  const root = await makeTree();
  const to = join(scratch, "to");
  await unpackArchive(packDirectory(root), to);
  await promisify(execFile)("diff", ["-r", "--no-dereference", root, to]);
  expect(await readFile(join(to, "ünï/deep", LONG), "utf8")).toBe("long");
});

it("contentBytes() counts the content of all files", async () => {
  expect(await contentBytes(await makeTree())).toBe(1000 + 512 + 4 + 10);
});
