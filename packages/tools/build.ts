/**
 * Makes the package that is published. `npm pack` does it by itself, with the steps `prepack` and
 * `postpack`; `node packages/tools/build.ts` writes the modules to `dist`.
 */
import { execFile } from "node:child_process";
import { globSync } from "node:fs";
import { readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";

const packageDir = import.meta.dirname;
const compiler = join(packageDir, "../../node_modules/typescript-native/bin/tsc");
const outputDir = join(packageDir, "dist");
const manifestFile = join(packageDir, "package.json");
const sourceManifestFile = join(packageDir, "package.source.json");

async function build(): Promise<void> {
  await rm(outputDir, { recursive: true, force: true });
  const config = join(packageDir, "tsconfig.build.json");
  const args = [compiler, "--project", config, "--outDir", outputDir];
  await promisify(execFile)(process.execPath, args);
  // The compiler rewrites the imports of modules, but not those of declarations.
  for (const file of globSync("**/*.d.ts", { cwd: outputDir })) {
    const path = join(outputDir, file);
    const text = await readFile(path, "utf8");
    await writeFile(path, text.replaceAll(/(["'])(\.{1,2}\/[^"']+)\.ts\1/g, "$1$2.js$1"));
  }
}

/** In the repository the package is its sources; published, it is what was built. */
async function publishedManifest(): Promise<string> {
  const source = JSON.parse(await readFile(manifestFile, "utf8"));
  const { devDependencies: _, scripts: __, exports: sources, ...rest } = source;
  const entries = Object.entries<string>(sources).map(([name, path]) => {
    const built = path.replace("./src/", "./dist/").replace(/\.ts$/, "");
    return [name, { types: `${built}.d.ts`, default: `${built}.js` }];
  });
  const manifest = {
    ...rest,
    exports: { ...Object.fromEntries(entries), "./package.json": "./package.json" },
    files: ["dist"],
    sideEffects: false,
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
