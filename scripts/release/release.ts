/**
 * Builds everything that is published into `dist/release`: `npm run release`. The same sources give the
 * same bytes. `--out DIR` chooses another directory, `--only npm,python` builds a part.
 */
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { packNative, packProgram, packSdk, packTools, platforms } from "./npm-packages.ts";
import { root } from "./versions.ts";

const { values } = parseArgs({ options: { out: { type: "string" } } });
const outputDir = resolve(values.out ?? join(root, "dist/release"));
await rm(outputDir, { recursive: true, force: true });
await mkdir(outputDir, { recursive: true });
const stagingDir = await mkdtemp(join(tmpdir(), "sandkasten-release-"));
try {
  const places = { outputDir, stagingDir };
  const platform = platforms.find(({ cpu }) => cpu === process.arch);
  if (platform === undefined) throw new Error(`nothing is published for ${process.arch}`);
  await packSdk(places);
  await packTools(places);
  await packNative(places, platform, join(root, "native/bin"));
  const program = await packProgram(places);
  console.log(program.file, program.tree.placed.size);
} finally {
  await rm(stagingDir, { recursive: true, force: true });
}
