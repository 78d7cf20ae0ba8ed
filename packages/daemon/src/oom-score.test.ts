import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { lowerOomScore } from "./oom-score.ts";

let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "sandkasten-score-"));
});
afterAll(() => rm(directory, { recursive: true }));

test.each([
  ["0", "-500"],
  ["300", "-500"],
  ["-900", "-900"],
])("lowerOomScore() makes %s of a daemon %s", async (before, after) => {
  const path = join(directory, "score");
  await writeFile(path, `${before}\n`);
  await lowerOomScore({ debug: () => undefined }, path);
  expect((await readFile(path, "utf8")).trim()).toBe(after);
});

test("lowerOomScore() continues if it is not permitted", async () => {
  let told = 0;
  await lowerOomScore({ debug: () => (told += 1) }, join(directory, "missing", "score"));
  expect(told).toBe(1);
});
