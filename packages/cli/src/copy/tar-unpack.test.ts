import assert from "node:assert/strict";
import {
  lstat,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  readlink,
  rm,
  symlink,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { encodeHeader, type NewTarEntry } from "@sandkasten/daemon/tar";
import { type TarEntry, writeTar } from "@sandkasten/testkit";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { unpackArchive } from "./tar-unpack.ts";

let scratch: string;
let root: string;
let outside: string;
beforeEach(async () => {
  scratch = await mkdtemp(join(tmpdir(), "sandkasten-cli-"));
  root = join(scratch, "root");
  outside = join(scratch, "outside");
  await mkdir(outside);
  await writeFile(join(outside, "secret"), "untouched");
});
afterEach(async () => {
  // Whatever a test does, nothing outside may change.
  assert.equal(await readFile(join(outside, "secret"), "utf8"), "untouched");
  assert.deepEqual(await readdir(outside), ["secret"]);
  await rm(scratch, { recursive: true, force: true });
});

async function* inPieces(archive: Uint8Array, size: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < archive.length; at += size)
    yield await Promise.resolve(archive.subarray(at, at + size));
}

function unpack(entries: Iterable<TarEntry>): ReturnType<typeof unpackArchive> {
  return unpackArchive(inPieces(writeTar(entries), 4096), root);
}

function header(path: string, rest: Partial<NewTarEntry> = {}): Buffer {
  const plain = {
    type: "file",
    mode: 0o644,
    sizeBytes: 0,
    mtimeSeconds: 0,
    linkTarget: "",
  } as const;
  return encodeHeader({ path, ...plain, ...rest });
}

/** An archive with other bytes in its first header, and a valid checksum. */
function patched(archive: Buffer, at: number, bytes: Buffer): Buffer {
  bytes.copy(archive, at);
  archive.fill(" ", 148, 156);
  const sum = archive.subarray(0, 512).reduce((total, byte) => total + byte, 0);
  archive.write(`${sum.toString(8).padStart(6, "0")}\0`, 148, "latin1");
  return archive;
}

const END = Buffer.alloc(1024);
const file = (path: string, text = "evil"): TarEntry => ({
  path,
  type: "file",
  bytes: Buffer.from(text),
});

describe("unpackArchive() stays inside the directory", () => {
  it.each(["../outside/secret", "a/../../outside/secret", "/etc/passwd", ".."])(
    "refuses the path %s",
    async (path) => {
      await expect(unpack([file(path)])).rejects.toThrow(/leads out of the directory/);
    },
  );

  it("refuses to write through a link of the archive", async () => {
    const entries = [{ path: "a", type: "symlink", target: outside } as const, file("a/secret")];
    // The file is created first, and the link then finds a directory in its place.
    await expect(unpack(entries)).rejects.toThrow(
      /is not a directory, but a directory exists there/,
    );
    expect((await lstat(join(root, "a"))).isDirectory()).toBe(true);
  });

  it("refuses to follow an existing link", async () => {
    await mkdir(root);
    await symlink(outside, join(root, "a"));
    await expect(unpack([file("a/secret")])).rejects.toThrow(
      /is a directory, but something else exists there/,
    );
  });

  it("replaces a link of the same name instead of writing to its target", async () => {
    await mkdir(root);
    await symlink(join(outside, "secret"), join(root, "a"));
    await unpack([file("a", "new")]);
    expect((await lstat(join(root, "a"))).isFile()).toBe(true);
    expect(await readFile(join(root, "a"), "utf8")).toBe("new");
  });

  it("refuses a link below a link", async () => {
    const entries = [
      { path: "a", type: "symlink", target: outside } as const,
      { path: "a/b", type: "symlink", target: "x" } as const,
    ];
    await expect(unpack(entries)).rejects.toThrow(
      /is a directory, but something else exists there/,
    );
  });

  it("refuses a hard link to a file outside", async () => {
    const archive = Buffer.concat([
      header("a", { type: "hardlink", linkTarget: "../outside/secret" }),
      END,
    ]);
    await expect(unpackArchive(inPieces(archive, 512), root)).rejects.toThrow(/leads out/);
  });

  it("refuses a hard link through an existing link", async () => {
    await mkdir(root);
    await symlink(outside, join(root, "l"));
    const archive = Buffer.concat([header("a", { type: "hardlink", linkTarget: "l/secret" }), END]);
    await expect(unpackArchive(inPieces(archive, 512), root)).rejects.toThrow(
      /something else exists there/,
    );
  });

  it("keeps a link to the outside as a link, without following it", async () => {
    await unpack([{ path: "l", type: "symlink", target: outside }]);
    expect(await readlink(join(root, "l"))).toBe(outside);
  });

  it("skips devices and drops set-user-id bits", async () => {
    await unpack([
      { path: "dev", type: "device" },
      { ...file("suid"), mode: 0o4755 },
    ]);
    expect(await readdir(root)).toEqual(["suid"]);
    expect((await lstat(join(root, "suid"))).mode & 0o7000).toBe(0);
  });
});

describe("unpackArchive()", () => {
  it("accepts an archive in pieces of any size", async () => {
    const archive = writeTar([file("a/b", "x".repeat(1500)), file("c", "y")]);
    expect(await unpackArchive(inPieces(archive, 7), root)).toEqual({ entries: 2, bytes: 1501 });
    expect(await readFile(join(root, "a/b"), "utf8")).toBe("x".repeat(1500));
  });

  it("creates a hard link to a file of the archive", async () => {
    const archive = Buffer.concat([
      header("a", { sizeBytes: 3 }),
      Buffer.from("abc".padEnd(512, "\0")),
      header("b", { type: "hardlink", linkTarget: "a" }),
      END,
    ]);
    await unpackArchive(inPieces(archive, 512), root);
    expect(await readFile(join(root, "b"), "utf8")).toBe("abc");
  });

  it("fills a read-only directory", async () => {
    await unpack([{ path: "d", type: "dir", mode: 0o555 }, file("d/f", "in")]);
    expect(await readFile(join(root, "d/f"), "utf8")).toBe("in");
    expect((await lstat(join(root, "d"))).mode & 0o777).toBe(0o555);
  });

  it("reads what follows the end of an archive, so the sender does not block", async () => {
    const sender = inPieces(Buffer.concat([writeTar([file("a")]), Buffer.alloc(4096, "x")]), 512);
    expect(await unpackArchive(sender, root)).toMatchObject({ entries: 1 });
    expect(await sender.next()).toEqual({ done: true, value: undefined });
  });

  it("accepts a name that is not UTF-8, shown with replacement characters", async () => {
    const archive = patched(writeTar([file("name-x", "in")]), 5, Buffer.of(0xff));
    await unpackArchive(inPieces(archive, 512), root);
    expect(await readFile(join(root, "name-\ufffd"), "utf8")).toBe("in");
  });

  it.each([
    ["before the epoch", "ffffffffffffffffffffffff", 0],
    ["after all that a file system can store", "8000000000001fffffffffff", 0o77777777777],
  ])("accepts a file that is from %s", async (_, mtime, seconds) => {
    const archive = patched(writeTar([file("a")]), 136, Buffer.from(mtime, "hex"));
    await unpackArchive(inPieces(archive, 512), root);
    expect((await lstat(join(root, "a"))).mtimeMs / 1000).toBe(seconds);
  });

  it.each([
    ["is cut short in a header", writeTar([file("a")]).subarray(0, 300), /is truncated/],
    ["is cut short in a file", writeTar([file("a")]).subarray(0, 514), /is truncated/],
    ["has no end", writeTar([file("a")]).subarray(0, 1024), /is truncated/],
    ["is something else", Buffer.alloc(1024, "x"), /is damaged/],
    ["is sparse", patched(writeTar([file("a")]), 156, Buffer.from("S")), /sparse/],
    [
      "is of a kind of its own",
      patched(writeTar([file("a")]), 156, Buffer.from("Z")),
      /unknown type/,
    ],
  ])("reports a damaged archive which %s", async (_, archive, message) => {
    const unpacking = unpackArchive(inPieces(archive, 512), root);
    await expect(unpacking).rejects.toMatchObject({
      code: "ARCHIVE_DAMAGED",
      message: expect.stringMatching(message) as string,
    });
  });
});
