/** A file store in a directory, and names that try to leave it. */
import { execFileSync } from "node:child_process";
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { DirectoryFileStore } from "./file-store.ts";

let outside: string;
let directory: string;
let store: DirectoryFileStore;
beforeEach(async () => {
  outside = await mkdtemp(join(tmpdir(), "sandkasten-store-"));
  directory = join(outside, "store");
  await mkdir(directory);
  await writeFile(join(outside, "secret"), "secret");
  store = new DirectoryFileStore(directory);
});
afterEach(async () => {
  await rm(outside, { recursive: true, force: true });
});

it("stores files by name, in directories that it creates", async () => {
  await store.put("a/b/c.txt", Buffer.from("one"));
  await store.put("a/b/c.txt", Buffer.from("two"));
  await store.put("z", new Uint8Array());
  expect(Buffer.from((await store.get("a/b/c.txt")) ?? []).toString()).toBe("two");
  expect(await store.get("missing/x")).toBeUndefined();
  expect(await store.get("z/below-a-file")).toBeUndefined();
  expect(await store.list()).toEqual(["a/b/c.txt", "z"]);
  expect(await readdir(directory)).toEqual(["a", "z"]);
});

it.each(["../secret", "a/../../secret", "/etc/passwd", "", ".", "..", "a//b", "a/.", "a\0b"])(
  "refuses the name %j",
  async (name) => {
    await expect(store.get(name)).rejects.toMatchObject({ code: "INVALID_INPUT" });
    await expect(store.put(name, Buffer.from("x"))).rejects.toMatchObject({
      code: "INVALID_INPUT",
    });
    expect(await readFile(join(outside, "secret"), "utf8")).toBe("secret");
  },
);

it("follows no link out of its directory", async () => {
  await symlink(join(outside, "secret"), join(directory, "file"));
  await symlink(outside, join(directory, "up"));
  await expect(store.get("file")).rejects.toMatchObject({ code: "REFUSED" });
  await expect(store.get("up/secret")).rejects.toMatchObject({ code: "REFUSED" });
  await expect(store.put("up/secret", Buffer.from("x"))).rejects.toMatchObject({ code: "REFUSED" });
  await expect(store.put("up/new/x", Buffer.from("x"))).rejects.toMatchObject({ code: "REFUSED" });
  // Next to the directory, with a name that starts like its own.
  await mkdir(join(outside, "store-of-others"));
  await writeFile(join(outside, "store-of-others", "secret"), "secret");
  await symlink(join(outside, "store-of-others"), join(directory, "beside"));
  await expect(store.get("beside/secret")).rejects.toMatchObject({ code: "REFUSED" });
  await expect(store.put("beside/x", Buffer.from("x"))).rejects.toMatchObject({ code: "REFUSED" });
  expect(await readdir(join(outside, "store-of-others"))).toEqual(["secret"]);
  // A link at the name itself is replaced, not followed.
  await store.put("file", Buffer.from("mine"));
  expect(await readFile(join(outside, "secret"), "utf8")).toBe("secret");
  expect((await readdir(outside)).toSorted()).toEqual(["secret", "store", "store-of-others"]);
});

it("reports a name that cannot be a file's", async () => {
  await store.put("a/b", Buffer.from("x"));
  execFileSync("mkfifo", [join(directory, "pipe")]);
  await symlink("loop", join(directory, "loop"));
  const bytes = Buffer.from("y");
  const notAFile = { name: "ToolError", code: "NOT_A_FILE" };
  await expect(store.put("a", bytes)).rejects.toMatchObject(notAFile);
  await expect(store.put("a/b/c", bytes)).rejects.toMatchObject(notAFile);
  await expect(store.put("a/b/c/d", bytes)).rejects.toMatchObject(notAFile);
  for (const name of ["a", "pipe", "loop"])
    await expect(store.get(name)).rejects.toMatchObject(notAFile);
  const long = "x".repeat(300);
  const tooLong = { name: "ToolError", code: "INVALID_INPUT" };
  await expect(store.put(long, bytes)).rejects.toMatchObject(tooLong);
  await expect(store.get(long)).rejects.toMatchObject(tooLong);
  expect((await readdir(directory)).toSorted()).toEqual(["a", "loop", "pipe"]);
});

it("can be a directory behind a link", async () => {
  await symlink(directory, join(outside, "link"));
  const linked = new DirectoryFileStore(join(outside, "link"));
  await linked.put("x", Buffer.from("y"));
  expect(await linked.list()).toEqual(["x"]);
  expect(await store.get("x")).toEqual(Buffer.from("y"));
});

it("is empty if its directory does not exist, and reveals no path of the machine", async () => {
  const none = new DirectoryFileStore(join(outside, "none"));
  expect(await none.get("a")).toBeUndefined();
  expect(await none.list()).toEqual([]);
  const noDirectory = new DirectoryFileStore(join(outside, "secret"));
  for (const work of [noDirectory.list(), noDirectory.put("a", Buffer.from("x"))]) {
    const error: unknown = await work.catch((failure: unknown) => failure);
    expect(error).toMatchObject({ name: "ToolError" });
    expect(String(error)).not.toContain(outside);
  }
});
