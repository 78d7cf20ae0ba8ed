import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { RootfsFiles } from "./rootfs-files.ts";

let outside: string;
let files: RootfsFiles;

beforeAll(() => {
  outside = mkdtempSync(join(tmpdir(), "sandkasten-test-"));
  writeFileSync(join(outside, "secret"), "of the host");
  const root = join(outside, "root");
  mkdirSync(join(root, "etc/real"), { recursive: true });
  writeFileSync(join(root, "etc/real/file"), "of the image");
  const links = {
    "etc/relative": "real",
    "etc/absolute": "/etc/real/file",
    "etc/chain": "relative/../absolute",
    "etc/climbing": "../../../../secret",
    "etc/host": join(outside, "secret"),
    "etc/circle": "circle",
    "etc/dangling": "nowhere/file",
    "etc/detour": "nowhere/../real/file",
  };
  for (const [path, target] of Object.entries(links)) symlinkSync(target, join(root, path));
  files = new RootfsFiles(root);
});
afterAll(() => rmSync(outside, { recursive: true, force: true }));

describe("a path of an image", () => {
  it.each([
    ["/", "/", "directory"],
    ["/etc/real/file", "/etc/real/file", "file"],
    ["/etc/relative/file", "/etc/real/file", "file"],
    ["/etc/absolute", "/etc/real/file", "file"],
    ["/etc/chain", "/etc/real/file", "file"],
    ["/etc/relative", "/etc/real", "directory"],
    ["/etc/new/file", "/etc/new/file", "missing"],
    ["/etc/relative/new", "/etc/real/new", "missing"],
    ["/etc/dangling", "/etc/nowhere/file", "missing"],
  ])("%s is %s, a %s", (path, real, kind) => {
    expect(files.lookAt(path)).toEqual({ path: real, kind });
  });

  it.each(["/etc/circle", "/etc/real/file/below", "/etc/detour"])("%s leads nowhere", (path) => {
    expect(files.lookAt(path).kind).toBe("other");
  });

  it("never leaves the image", () => {
    expect(files.lookAt("/etc/climbing")).toEqual({ path: "/secret", kind: "missing" });
    expect(files.lookAt("/etc/host")).toEqual({ path: join(outside, "secret"), kind: "missing" });
    expect(files.readText("/secret", 100)).toBeUndefined();
  });

  it("is read if it is a file that is not too large", () => {
    expect(files.readText("/etc/real/file", 100)).toBe("of the image");
    expect(files.readText("/etc/real/file", 3)).toBeUndefined();
    expect(files.readText("/etc/real", 100)).toBeUndefined();
    expect(files.readText("/etc/absolute", 100)).toBeUndefined();
  });
});
