import { existsSync, globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";

const root = join(import.meta.dirname, "..");
const page = readFileSync(join(root, "docs/architecture.md"), "utf8");

/** Paths from the root of the repository that the page names. */
const named = [
  ...page.matchAll(/`((?:packages|clients|native|docs|scripts|tests|bench)\/[^`\s]+)`/g),
].map(([, path]) => path ?? "");

/** Folders that are part of the daemon's design: those of `src`, of its surfaces and of its backends. */
const folders = new Set(
  globSync("**/*.ts", { cwd: join(root, "packages/daemon/src") }).flatMap((file) => {
    const [folder = "", below = "", ...rest] = file.split("/").slice(0, -1).concat("");
    if (folder === "") return [];
    const isGroup = folder === "surfaces" || folder === "backends";
    return isGroup && rest.length > 0 && below !== "" ? [folder, `${folder}/${below}`] : [folder];
  }),
);

describe("docs/architecture.md", () => {
  test("names only files and folders that exist", () => {
    expect(named.length).toBeGreaterThan(50);
    expect(named.filter((path) => !existsSync(join(root, path)))).toEqual([]);
  });

  test("has a paragraph for each folder of the daemon", () => {
    expect(folders).toContain("sessions");
    expect(folders).toContain("surfaces/native");
    const described = new Set(
      [...page.matchAll(/^\*\*`packages\/daemon\/src\/([^`]+)`\*\* \S/gm)].map(([, path]) => path),
    );
    expect([...folders].filter((folder) => !described.has(folder))).toEqual([]);
  });

  test("describes each folder of the runner", () => {
    const parts = globSync("*/", { cwd: join(root, "native/runner/src") });
    expect(parts).toContain("execs");
    const described = new Set(named.map((path) => path.replace("native/runner/src/", "")));
    expect(parts.filter((part) => !described.has(part))).toEqual([]);
  });

  test("reaches the runner in at most eight hops, each of them a file", () => {
    const [walk = ""] = /^## The path of a request$.*?(?=^## )/ms.exec(page) ?? [];
    const hops = [...walk.matchAll(/^(\d+)\. `([^`]+)`/gm)];
    expect(hops.length).toBeGreaterThan(4);
    expect(hops.length).toBeLessThanOrEqual(8);
    for (const [, , path = ""] of hops) expect(path).toMatch(/\.(ts|rs)$/);
    expect(hops.at(-1)?.[2]).toMatch(/^native\/runner\//);
  });
});
