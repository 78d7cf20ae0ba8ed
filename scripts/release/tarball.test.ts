import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { packTarball } from "./tarball.ts";

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "sandkasten-tarball-"));
});
afterEach(() => rmSync(directory, { recursive: true }));

/** The same tree, written in another order, at another time, with other permissions. */
function writeTree(name: string, files: readonly string[], mode: number, time: number): string {
  const tree = join(directory, name);
  for (const file of files) {
    mkdirSync(join(tree, file, ".."), { recursive: true });
    writeFileSync(join(tree, file), file, { mode });
    utimesSync(join(tree, file), time, time);
  }
  return tree;
}

const listing = (file: string): string =>
  execFileSync("tar", ["--list", "--verbose", "--numeric-owner", "--file", file]).toString();

describe("packTarball()", () => {
  test("gives the same bytes for the same contents", async () => {
    const one = writeTree("one", ["a", "b/c", "b/d"], 0o644, 1000);
    const other = writeTree("other", ["b/d", "b/c", "a"], 0o600, 2000);
    const files = [join(directory, "one.tgz"), join(directory, "other.tgz")] as const;
    await packTarball(one, files[0], { prefix: "package", compress: true });
    await packTarball(other, files[1], { prefix: "package", compress: true });
    expect(readFileSync(files[0]).equals(readFileSync(files[1]))).toBe(true);
    expect(listing(files[0])).toMatch(/^-rw-r--r-- 0\/0 .* package\/b\/c$/m);
  });

  test("packs single directories without their parents, with the given owner", async () => {
    const tree = writeTree("tree", ["var/lib/data/file"], 0o644, 1000);
    const file = join(directory, "data.tar");
    const options = { directories: ["var/lib/data"], owner: 10_000, mode: "u=rwx,go=" };
    await packTarball(tree, file, options);
    expect(listing(file)).toMatch(/^drwx------ 10000\/10000 .* var\/lib\/data\/\n$/);
  });
});
