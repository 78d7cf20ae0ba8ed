/**
 * Builds the published package. `npm pack` runs this with the steps `prepack` and `postpack`; `node
 * packages/tools/build.ts` writes the modules to `dist`.
 */
import { rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { buildPackage } from "./build-package.ts";
import { publishedManifest } from "./published-manifest.ts";

const packageDir = import.meta.dirname;
const manifestFile = join(packageDir, "package.json");
const sourceManifestFile = join(packageDir, "package.source.json");

const build = (): Promise<void> => buildPackage(join(packageDir, "dist"));

const steps: Readonly<Record<string, () => Promise<void>>> = {
  build,
  /** npm packs the manifest that it finds after this. */
  async prepack() {
    await build();
    const manifest = `${JSON.stringify(publishedManifest(), null, 2)}\n`;
    await rename(manifestFile, sourceManifestFile);
    await writeFile(manifestFile, manifest);
  },
  async postpack() {
    await rename(sourceManifestFile, manifestFile);
  },
};

const step = steps[process.argv[2] ?? "build"];
if (step === undefined) throw new Error("usage: build.ts [build | prepack | postpack]");
await step();
