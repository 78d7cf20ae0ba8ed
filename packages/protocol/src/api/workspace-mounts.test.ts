import { describe, expect, test } from "vitest";
import { createSessionSchema } from "./sessions.ts";

const accepts = (...workspaces: readonly object[]): boolean =>
  createSessionSchema.safeParse({ workspaces }).success;
const at = (path: string): object => ({ id: "data", path });

describe("workspaces of a session", () => {
  test.each(["/mnt", "/data", "/mnt/a b", "/home/other", "/var/lib/x", "/opt/tools/v1", "/tmpx"])(
    "can be at %j",
    (path) => {
      expect(accepts(at(path))).toBe(true);
      expect(accepts({ ...at(path), read_only: true })).toBe(true);
    },
  );

  test.each([
    "/",
    "",
    "mnt",
    "/mnt/",
    "//mnt",
    "/mnt/../etc",
    "/mnt/.",
    "/a\0b",
    "/proc",
    "/proc/sys",
    "/dev/shm",
    "/sys",
    "/etc",
    "/usr/local",
    "/bin",
    "/home",
    "/home/sandbox/x",
    "/var",
    "/workspace",
    "/workspace/x",
    "/work",
    "/tmp/x",
    "/run/x",
    "/.sandkasten",
    `/${"x".repeat(255)}`,
  ])("cannot be at %j", (path) => {
    expect(accepts(at(path))).toBe(false);
  });

  test("are each mounted once, at separate paths, and up to a maximum", () => {
    expect(accepts(at("/a"), { id: "other", path: "/b" })).toBe(true);
    expect(accepts(at("/a"), at("/b"))).toBe(false);
    expect(accepts(at("/a"), { id: "other", path: "/a" })).toBe(false);
    expect(accepts(at("/a"), { id: "other", path: "/a/b" })).toBe(false);
    const many = (count: number): object[] =>
      Array.from({ length: count }, (_, index) => ({ id: `w-${index}`, path: `/m/${index}` }));
    expect(accepts(...many(8))).toBe(true);
    expect(accepts(...many(9))).toBe(false);
  });

  test("cannot also be the one at /workspace", () => {
    const body = { workspace_id: "data", workspaces: [at("/mnt")] };
    expect(createSessionSchema.safeParse(body).success).toBe(false);
  });
});
