/**
 * Builds the site into `dist`, unless it is up to date: `node packages/site/build.ts`. With
 * `--check` it only reports that, with exit code 0.
 */
import { hash } from "node:crypto";
import { globSync } from "node:fs";
import { readFile, rm, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";

const root = join(import.meta.dirname, "../..");
const target = join(import.meta.dirname, "dist");

async function stateOfSources(): Promise<string> {
  const names: string[] = [
    "README.md",
    ...globSync("docs/**/*.{md,svg,png}", { cwd: root }),
    ...globSync("packages/site/{build.ts,package.json,src/**/*.*}", { cwd: root }),
  ];
  names.sort();
  const hashes = await Promise.all(
    names.map(async (name) => `${name} ${hash("sha256", await readFile(join(root, name)))}`),
  );
  return hash("sha256", hashes.join("\n"));
}

const stamp = join(target, ".stamp");
const state = await stateOfSources();
const built = await readFile(stamp, "utf8").catch(() => "");
if (process.argv.includes("--check")) {
  process.exitCode = built === state ? 0 : 1;
} else if (built !== state) {
  const { buildSite } = await import("./src/build-site.ts");
  // By rename, because a running daemon may serve the existing files.
  const partial = `${target}.partial`;
  await rm(partial, { recursive: true, force: true });
  await buildSite(root, partial);
  await writeFile(join(partial, ".stamp"), state);
  await rm(target, { recursive: true, force: true });
  await rename(partial, target);
}
