/**
 * Makes the package that is published: `node packages/sdk/build.ts` writes one module, its types and
 * a manifest to `dist`, which need nothing else. With an argument it writes to that directory.
 */
import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { rolldown } from "rolldown";
import { bundleDeclarations } from "./bundle-declarations.ts";

const packageDir = import.meta.dirname;
const compiler = join(packageDir, "../../node_modules/typescript-native/bin/tsc");
/** Terminals and sessions can be disposed of, which not every `lib` of a project knows. */
const declarationHead = '/// <reference lib="esnext.disposable" />\n\n';

/** Writes `index.js`, `index.d.ts` and `package.json`. */
export async function buildPackage(outputDir: string): Promise<void> {
  await mkdir(outputDir, { recursive: true });
  await buildModule(join(outputDir, "index.js"));
  await writeFile(join(outputDir, "index.d.ts"), declarationHead + (await buildDeclarations()));
  await writeFile(join(outputDir, "package.json"), await buildManifest());
}

async function buildModule(file: string): Promise<void> {
  const bundle = await rolldown({
    input: join(packageDir, "src/index.ts"),
    platform: "neutral",
    onLog: (_level, log) => {
      throw new Error(log.message);
    },
  });
  try {
    await bundle.write({ file, format: "esm" });
  } finally {
    await bundle.close();
  }
}

async function buildDeclarations(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), "sandkasten-sdk-types-"));
  try {
    const config = join(packageDir, "tsconfig.build.json");
    const args = [compiler, "--project", config, "--outDir", directory];
    await promisify(execFile)(process.execPath, args);
    return bundleDeclarations(directory);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

/** In the repository the package is its sources; published, it is what was built. */
async function buildManifest(): Promise<string> {
  const source = await readFile(join(packageDir, "package.json"), "utf8");
  const { name, version, description, type, engines } = JSON.parse(source);
  const exports = { ".": { types: "./index.d.ts", default: "./index.js" } };
  const manifest = { name, version, description, type, exports, sideEffects: false, engines };
  return `${JSON.stringify(manifest, null, 2)}\n`;
}

if (import.meta.main) await buildPackage(resolve(process.argv[2] ?? join(packageDir, "dist")));
