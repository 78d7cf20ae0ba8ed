import { chown, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { compileCacheDirectory, readEnvironment } from "./environment.ts";

describe("readEnvironment()", () => {
  it("treats an empty variable as not set", () => {
    const { url, apiKey, colours } = readEnvironment({
      SANDKASTEN_URL: "",
      SANDKASTEN_API_KEY: "",
      NO_COLOR: "",
    });
    expect([url, apiKey, colours]).toEqual([undefined, undefined, true]);
  });

  it.each([{ NO_COLOR: "1" }, { TERM: "dumb" }])("wants no colours with %j", (variables) => {
    expect(readEnvironment(variables).colours).toBe(false);
  });
});

describe("compileCacheDirectory()", () => {
  let home: string;
  beforeEach(async () => {
    home = await mkdtemp(join(tmpdir(), "sandkasten-cli-"));
  });
  afterEach(async () => {
    await rm(home, { recursive: true, force: true });
  });

  it("is below the user's own home", () => {
    expect(compileCacheDirectory({ HOME: home })).toBe(join(home, ".cache/sandkasten/compiled"));
    expect(compileCacheDirectory({ HOME: "/", XDG_CACHE_HOME: home })).toBe(
      join(home, "sandkasten/compiled"),
    );
  });

  it("does not exist when the home directory belongs to another user or is missing", async () => {
    // Only root can change a directory's owner; other users test with a directory of root's.
    const isRoot = process.geteuid?.() === 0;
    if (isRoot) await chown(home, 65_534, 65_534);
    expect(compileCacheDirectory({ HOME: isRoot ? home : "/" })).toBeUndefined();
    expect(compileCacheDirectory({ HOME: join(home, "missing") })).toBeUndefined();
    expect(compileCacheDirectory({})).toBeUndefined();
    expect(compileCacheDirectory({ HOME: "relative" })).toBeUndefined();
  });
});
