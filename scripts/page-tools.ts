/**
 * Lays out a directory in which the dashboard and the documentation can be built with few packages: their
 * sources, what they import of the other packages, and manifests of just that. The lock file is the
 * project's, so `npm ci` installs the same versions: `node scripts/page-tools.ts DIRECTORY`.
 */
import { cp, mkdir, readFile, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";

const root = join(import.meta.dirname, "..");
const pages = ["packages/dashboard", "packages/site"];
const imported = { "packages/sdk": "src", "packages/agents": "src/client" };

async function layOut(directory: string): Promise<void> {
  const copy = async (path: string): Promise<void> => {
    await mkdir(dirname(join(directory, path)), { recursive: true });
    const filter = (from: string): boolean => !["dist", "node_modules"].includes(basename(from));
    await cp(join(root, path), join(directory, path), { recursive: true, filter });
  };
  const writeManifest = async (path: string, changes: object): Promise<void> => {
    const text = await readFile(join(root, path, "package.json"), "utf8");
    const manifest = { ...(JSON.parse(text) as object), ...changes };
    await writeFile(join(directory, path, "package.json"), JSON.stringify(manifest));
  };

  const shared = ["package-lock.json", ".npmrc", "tsconfig.base.json", "README.md", "docs"];
  for (const path of [...shared, ...pages]) await copy(path);
  const workspaces = [...pages, ...Object.keys(imported)];
  await writeManifest(".", { workspaces, devDependencies: {} });
  for (const [path, sources] of Object.entries(imported)) {
    await copy(join(path, sources));
    await writeManifest(path, { dependencies: {}, devDependencies: {} });
  }
}

const [directory] = process.argv.slice(2);
if (directory === undefined) throw new Error("name the directory to lay out");
await layOut(directory);
