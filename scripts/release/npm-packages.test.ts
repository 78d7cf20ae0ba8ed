import { mkdir, mkdtempDisposable } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { requirePages } from "./npm-packages.ts";

test("a release without built pages names the command to run", async () => {
  await using packages = await mkdtempDisposable(join(tmpdir(), "sandkasten-pages-"));
  await mkdir(join(packages.path, "dashboard/dist"), { recursive: true });
  expect(() => requirePages(packages.path)).toThrow("not built: site. Run `npm run setup` first.");
  await mkdir(join(packages.path, "site/dist"), { recursive: true });
  expect(() => requirePages(packages.path)).not.toThrow();
});
