/**
 * Makes the package that is published. `npm pack` does it by itself, with the steps `prepack` and
 * `postpack`; `node packages/sdk/build.ts` writes the modules to `dist`.
 */
import { readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { buildPackage } from "./build-package.ts";

const packageDir = import.meta.dirname;
const manifestFile = join(packageDir, "package.json");
const sourceManifestFile = join(packageDir, "package.source.json");

const build = (): Promise<void> => buildPackage(join(packageDir, "dist"));

/** In the repository the package is its sources; published, it is what was built. */
async function publishedManifest(): Promise<string> {
  const source = JSON.parse(await readFile(manifestFile, "utf8"));
  const { name, version, description, keywords, type, engines } = source;
  const manifest = {
    name,
    version,
    description,
    keywords,
    type,
    exports: {
      ".": {
        import: { types: "./dist/index.d.ts", default: "./dist/index.js" },
        require: { types: "./dist/index.d.cts", default: "./dist/index.cjs" },
      },
      "./package.json": "./package.json",
    },
    // For tools that do not know `exports`.
    main: "./dist/index.cjs",
    module: "./dist/index.js",
    types: "./dist/index.d.ts",
    files: ["dist"],
    sideEffects: false,
    engines,
  };
  return `${JSON.stringify(manifest, null, 2)}\n`;
}

const steps: Readonly<Record<string, () => Promise<void>>> = {
  build,
  /** npm packs the manifest that it finds after this. */
  async prepack() {
    await build();
    const manifest = await publishedManifest();
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
