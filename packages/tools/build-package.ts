/** Compiles the sources into the published modules. */
import { execFile } from "node:child_process";
import { globSync } from "node:fs";
import { readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";

const packageDir = import.meta.dirname;
const compiler = join(packageDir, "../../node_modules/typescript-native/bin/tsc");

/** Writes a module and its types for each source file. */
export async function buildPackage(outputDir: string): Promise<void> {
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
