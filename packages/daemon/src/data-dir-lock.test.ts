import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { lockDataDir } from "./data-dir-lock.ts";

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "sandkasten-lock-"));
});
afterEach(async () => {
  await rm(directory, { recursive: true });
});

it("only one daemon at a time can use a data directory", () => {
  const first = lockDataDir(directory);
  expect(() => lockDataDir(directory)).toThrow(expect.objectContaining({ code: "CONFLICT" }));
  first[Symbol.dispose]();
  lockDataDir(directory)[Symbol.dispose]();
});
