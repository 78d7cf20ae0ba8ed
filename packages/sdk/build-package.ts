/** Bundles the sources for publication. */
import { execFile } from "node:child_process";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { rolldown } from "rolldown";
import { bundleDeclarations } from "./bundle-declarations.ts";

const packageDir = import.meta.dirname;
const compiler = join(packageDir, "../../node_modules/typescript-native/bin/tsc");
/** Terminals and sessions are disposable, which not every project's `lib` includes. */
const declarationHead = '/// <reference lib="esnext.disposable" />\n\n';

/** Writes a module for `import`, one for `require`, and their self-contained types. */
export async function buildPackage(outputDir: string): Promise<void> {
  await rm(outputDir, { recursive: true, force: true });
  await mkdir(outputDir);
  await buildModules(outputDir);
  const declarations = declarationHead + (await buildDeclarations());
  // The same text twice: only the file name decides whether it describes an ES module.
  for (const name of ["index.d.ts", "index.d.cts"])
    await writeFile(join(outputDir, name), declarations);
}

async function buildModules(outputDir: string): Promise<void> {
  const bundle = await rolldown({
    input: join(packageDir, "src/index.ts"),
    platform: "neutral",
    transform: { target: "es2022" },
    onLog: (_level, log) => {
      throw new Error(log.message);
    },
  });
  try {
    await bundle.write({ file: join(outputDir, "index.js"), format: "esm" });
    await bundle.write({ file: join(outputDir, "index.cjs"), format: "cjs" });
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
