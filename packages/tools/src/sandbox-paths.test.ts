/** Paths as models write them. */
import { describe, expect, it } from "vitest";
import { sandboxPath, workspacePath } from "./sandbox-paths.ts";

describe("a path", () => {
  it.each([
    ["main.py", "/workspace/main.py"],
    ["./a//b/../c", "/workspace/a/c"],
    ["/workspace/x", "/workspace/x"],
    ["/work/x", "/workspace/x"],
    ["/work", "/workspace"],
    ["/work/../tmp/x", "/tmp/x"],
    ["/workshop/x", "/workshop/x"],
    ["/tmp/x", "/tmp/x"],
    [".", "/workspace"],
    ["/etc/hosts", "/etc/hosts"],
    ["/rootless", "/rootless"],
    ["root/x", "/workspace/root/x"],
  ])("%s means %s", (given, path) => {
    expect(sandboxPath(given)).toBe(path);
  });

  it.each([
    "/etc/passwd",
    "/etc/shadow",
    "/root",
    "/root/.ssh/id_rsa",
    "/proc/1/environ",
    "/sys/kernel",
    "/dev/mem",
    "//etc//passwd",
    "/work/../etc/passwd",
    "../../../etc/passwd",
    "a/../../root/x",
    "/tmp/../proc/self",
    "/.sandkasten/runner",
    "/run/sandkasten/runner.sock",
  ])("%s is refused", (given) => {
    expect(() => sandboxPath(given)).toThrow(expect.objectContaining({ code: "REFUSED" }));
  });

  it("below the workspace is relative to it, and any other is refused", () => {
    expect(workspacePath("/work/a/b")).toBe("a/b");
    for (const given of [".", "/work", "/tmp/x", "../x", "/workspace-2/x"])
      expect(() => workspacePath(given)).toThrow(
        expect.objectContaining({ code: "INVALID_INPUT" }),
      );
    expect(() => sandboxPath("a\0b")).toThrow("NUL");
  });
});
