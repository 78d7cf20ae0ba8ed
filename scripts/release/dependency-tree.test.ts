import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { type Lock, placeDependencies } from "./dependency-tree.ts";
import { root } from "./versions.ts";

const release = (version: string, more: object = {}) => ({ version, integrity: version, ...more });

describe("placeDependencies()", () => {
  test("places the newest version of a package that two workspaces need in different versions", () => {
    const lock: Lock = {
      "packages/a": release("0", { dependencies: { x: "1.0.0" } }),
      "packages/b": release("0", { dependencies: { x: "1.2.0" } }),
      "node_modules/x": release("1.0.0"),
      "packages/b/node_modules/x": release("1.2.0"),
    };
    const { dependencies, placed } = placeDependencies(lock, ["packages/a", "packages/b"]);
    expect(dependencies).toEqual({ x: "1.2.0" });
    expect([...placed]).toEqual([["node_modules/x", "packages/b/node_modules/x"]]);
  });

  test("refuses versions with different major numbers", () => {
    const lock: Lock = {
      "packages/a": release("0", { dependencies: { x: "1.0.0" } }),
      "packages/b": release("0", { dependencies: { x: "2.0.0" } }),
      "node_modules/x": release("1.0.0"),
      "packages/b/node_modules/x": release("2.0.0"),
    };
    expect(() => placeDependencies(lock, ["packages/a", "packages/b"])).toThrow(/differ too much/);
  });

  test("nests what the root has in another version, also for peers", () => {
    const lock: Lock = {
      "packages/a": release("0", { dependencies: { sdk: "1", y: "3.0.0" } }),
      "node_modules/sdk": release("1", { dependencies: { z: "1" } }),
      "node_modules/z": release("1", { peerDependencies: { y: "1" } }),
      "node_modules/y": release("1.0.0"),
      "packages/a/node_modules/y": release("3.0.0"),
    };
    const { placed } = placeDependencies(lock, ["packages/a"]);
    expect([...placed]).toEqual([
      ["node_modules/sdk", "node_modules/sdk"],
      ["node_modules/y", "packages/a/node_modules/y"],
      ["node_modules/z", "node_modules/z"],
      ["node_modules/z/node_modules/y", "node_modules/y"],
    ]);
  });

  test("hides no package from one that was placed before", () => {
    const lock: Lock = {
      "packages/a": release("0", { dependencies: { p: "1", x: "2.0.0" } }),
      "node_modules/p": release("1", { dependencies: { q: "1", r: "1", x: "2.0.0" } }),
      "node_modules/p/node_modules/x": release("2.0.0"),
      "node_modules/q": release("1", { dependencies: { x: "1.0.0" } }),
      "node_modules/r": release("1", { dependencies: { x: "1.0.0" } }),
      "node_modules/x": release("1.0.0"),
      "packages/a/node_modules/x": release("2.0.0"),
    };
    const { placed } = placeDependencies(lock, ["packages/a"]);
    expect(placed.get("node_modules/x")).toBe("packages/a/node_modules/x");
    expect(placed.get("node_modules/q/node_modules/x")).toBe("node_modules/x");
    expect(placed.get("node_modules/r/node_modules/x")).toBe("node_modules/x");
    expect(placed.has("node_modules/p/node_modules/x")).toBe(false);
  });

  test("omits optional packages that would be compiled at installation", () => {
    const lock: Lock = {
      "packages/a": release("0", { dependencies: { x: "1" } }),
      "node_modules/x": release("1", { optionalDependencies: { fast: "1", slow: "1" } }),
      "node_modules/fast": release("1", { hasInstallScript: true }),
      "node_modules/slow": release("1"),
    };
    const { placed } = placeDependencies(lock, ["packages/a"]);
    expect([...placed.keys()]).toEqual(["node_modules/slow", "node_modules/x"]);
  });

  test("reports what is missing from the lockfile", () => {
    const lock: Lock = { "packages/a": release("0", { dependencies: { x: "1" } }) };
    expect(() => placeDependencies(lock, ["packages/a"])).toThrow("depends on x");
  });

  test("places the daemon's packages without those of tests", () => {
    const lock = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8")).packages as Lock;
    const { placed } = placeDependencies(lock, ["packages/daemon"]);
    expect(placed.has("node_modules/fastify")).toBe(true);
    expect(placed.has("node_modules/vitest")).toBe(false);
    expect(placed.has("node_modules/genkit")).toBe(false);
  });
});
