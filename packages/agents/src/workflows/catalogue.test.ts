/** Files in the workflow folder that cannot be read. */
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { WorkflowCatalogue } from "./catalogue.ts";

let dir: string;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "sandkasten-workflows-"));
  await mkdir(join(dir, "workflows"));
});
afterEach(async () => await rm(dir, { recursive: true, force: true }));

test("a link to itself is invalid, and the others keep working", async () => {
  await symlink("loop.yaml", join(dir, "workflows", "loop.yaml"));
  await writeFile(join(dir, "workflows", "good.yaml"), "steps: [{ id: a, type: end }]");
  const entries = await new WorkflowCatalogue({ dir, hasAgent: () => true }).list();
  expect(entries.map(({ id, problems }) => [id, problems.length])).toEqual([
    ["good", 0],
    ["loop", 1],
  ]);
});
