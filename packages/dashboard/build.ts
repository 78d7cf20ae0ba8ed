/**
 * Builds the dashboard into `dist`, with compressed copies of all files next to them: `node
 * packages/dashboard/build.ts`. Does nothing if nothing has changed since the last build. With
 * `--check` it only reports that, with exit code 0.
 */
import { createHash } from "node:crypto";
import { globSync } from "node:fs";
import { readFile, rename, rm, writeFile } from "node:fs/promises";
import { join, relative } from "node:path";
import { promisify } from "node:util";
import { brotliCompress, constants, gzip } from "node:zlib";

const packageDir = import.meta.dirname;
const root = join(packageDir, "../..");
const target = join(packageDir, "dist");
const staging = join(packageDir, "dist.partial");
const stampFile = join(target, "built-from");

/** All inputs of the bundle except third-party packages, whose versions are in the lock file. */
const sources = [
  "package-lock.json",
  "packages/dashboard/{build.ts,vite.config.ts,package.json,tsconfig.json,index.html}",
  "packages/dashboard/src/**/*",
  "packages/sdk/src/*.ts",
  "packages/agents/src/client/*.ts",
];

async function stampOfSources(): Promise<string> {
  const digest = createHash("sha256").update(process.version);
  // Names relative to the root, so the same sources elsewhere have the same stamp.
  const files = globSync(sources, { cwd: root, withFileTypes: true })
    .filter((entry) => entry.isFile() && !entry.name.endsWith(".test.ts"))
    .map((entry) => relative(root, join(entry.parentPath, entry.name)));
  for (const file of files.toSorted()) digest.update(file).update(await readFile(join(root, file)));
  return digest.digest("hex");
}

async function compress(path: string): Promise<void> {
  const bytes = await readFile(path);
  const params = { [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY };
  await writeFile(`${path}.br`, await promisify(brotliCompress)(bytes, { params }));
  await writeFile(`${path}.gz`, await promisify(gzip)(bytes, { level: 9 }));
}

const stamp = await stampOfSources();
const built = await readFile(stampFile, "utf8").catch(() => "");
if (process.argv.includes("--check")) {
  process.exitCode = built === stamp ? 0 : 1;
} else if (built !== stamp) {
  const { build } = await import("vite");
  await build({
    configFile: join(packageDir, "vite.config.ts"),
    build: { outDir: staging, emptyOutDir: true },
  });
  const files = globSync("**/*.{css,html,js,svg}", { cwd: staging });
  await Promise.all(files.map((file) => compress(join(staging, file))));
  await writeFile(join(staging, "built-from"), stamp);
  await rm(target, { recursive: true, force: true });
  await rename(staging, target);
}
