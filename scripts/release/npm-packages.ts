/** The npm packages: the SDK, the tools, the native programs of a platform, and `sandkasten` itself. */
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { chmod, cp, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { buildPackage as buildSdk } from "../../packages/sdk/build-package.ts";
import { publishedManifest as sdkManifest } from "../../packages/sdk/published-manifest.ts";
import { buildPackage as buildTools } from "../../packages/tools/build-package.ts";
import { publishedManifest as toolsManifest } from "../../packages/tools/published-manifest.ts";
import { bundleProgram } from "./bundle-program.ts";
import { copyTree } from "./copy-tree.ts";
import { type Lock, type PlacedTree, placeDependencies } from "./dependency-tree.ts";
import { packTarball } from "./tarball.ts";
import { readManifest, root, version } from "./versions.ts";

const run = promisify(execFile);

/** The packages that `sandkasten` bundles; it has their dependencies. */
const workspaces = ["cli", "daemon", "protocol", "telemetry", "agents", "mcp", "tools", "sdk"].map(
  (name) => `packages/${name}`,
);

/** The platforms that native programs are published for. */
export const platforms = [
  { name: "linux-x64", os: "linux", cpu: "x64", machine: "x86_64", debian: "amd64" },
  { name: "linux-arm64", os: "linux", cpu: "arm64", machine: "aarch64", debian: "arm64" },
] as const;
export type Platform = (typeof platforms)[number];

export const nativePackage = (platform: Platform): string => `@sandkasten/native-${platform.name}`;

/** A packed package. */
export interface Packed {
  readonly name: string;
  /** The tarball. */
  readonly file: string;
  /** Its unpacked contents. */
  readonly directory: string;
}

export interface Places {
  /** Where finished files go. */
  readonly outputDir: string;
  /** Where packages are assembled. */
  readonly stagingDir: string;
}

export async function packSdk(places: Places): Promise<Packed> {
  const directory = await stage(places, "sdk", sdkManifest());
  await buildSdk(join(directory, "dist"));
  await cp(join(root, "packages/sdk/README.md"), join(directory, "README.md"));
  return await pack(places, directory);
}

export async function packTools(places: Places): Promise<Packed> {
  const directory = await stage(places, "tools", toolsManifest());
  await buildTools(join(directory, "dist"));
  await cp(join(root, "packages/tools/README.md"), join(directory, "README.md"));
  return await pack(places, directory);
}

/** @param nativeDir - Contains the runner and the launcher, built for the platform. */
export async function packNative(
  places: Places,
  platform: Platform,
  nativeDir: string,
): Promise<Packed> {
  const { license, author, repository } = readManifest(".");
  const directory = await stage(places, `native-${platform.name}`, {
    name: nativePackage(platform),
    version,
    description: `The native programs of Sandkasten for ${platform.name}`,
    license,
    author,
    repository: { ...Object(repository), directory: "native" },
    os: [platform.os],
    cpu: [platform.cpu],
    files: ["bin"],
    exports: { "./package.json": "./package.json" },
  });
  await mkdir(join(directory, "bin"));
  for (const name of ["runner", "launcher"]) {
    await cp(join(nativeDir, name), join(directory, "bin", name));
    await chmod(join(directory, "bin", name), 0o755);
  }
  await cp(join(nativeDir, "source"), join(directory, "bin/source"));
  await writeFile(
    join(directory, "README.md"),
    `# ${nativePackage(platform)}\n\nThe two static programs that \`sandkasten\` needs on ${platform.name}. ` +
      "npm installs this package together with `sandkasten`.\n",
  );
  return await pack(places, directory);
}

const pages = ["dashboard", "site"] as const;

export interface Program extends Packed {
  readonly tree: PlacedTree;
}

/**
 * A program rather than a library, so it brings the packages it depends on, in the versions that were
 * tested: docs/adr/0017-releases-contain-what-was-tested.md.
 *
 * @param natives - The native programs of all platforms that this release is for, which it brings as
 *   well: npm asks a registry for nothing.
 */
export async function packProgram(places: Places, natives: readonly Packed[]): Promise<Program> {
  const lock = JSON.parse(await readFile(join(root, "package-lock.json"), "utf8")) as {
    readonly packages: Lock;
  };
  const tree = placeDependencies(lock.packages, workspaces);
  const { license, author, repository, description, keywords, engines } = readManifest(".");
  const manifest = {
    name: "sandkasten",
    version,
    description,
    keywords,
    license,
    author,
    repository,
    type: "module",
    bin: { sandkasten: "dist/main.js" },
    exports: { "./package.json": "./package.json" },
    files: ["dist", ...pages],
    engines,
    os: ["linux"],
    dependencies: tree.dependencies,
    bundleDependencies: [...Object.keys(tree.dependencies), ...natives.map(({ name }) => name)],
    optionalDependencies: Object.fromEntries(natives.map(({ name }) => [name, version])),
  };
  const directory = await stage(places, "sandkasten", manifest);
  requireDeclared(await bundleProgram(join(directory, "dist")), tree);
  await chmod(join(directory, "dist/main.js"), 0o755);
  await copyPages(directory);
  await cp(join(root, "docs/guides/install.md"), join(directory, "README.md"));
  await copyTree(tree, directory);
  for (const native of natives)
    await cp(native.directory, join(directory, "node_modules", native.name), { recursive: true });
  // `npm pack` would leave out packages that are needed as peers only.
  const file = join(places.outputDir, `sandkasten-${version}.tgz`);
  await packTarball(directory, file, { prefix: "package", compress: true });
  return { name: manifest.name, file, directory, tree };
}

/** Fails if set-up has not built the pages that the daemon serves. */
export function requirePages(packagesDir = join(root, "packages")): void {
  const missing = pages.filter((name) => !existsSync(join(packagesDir, name, "dist")));
  if (missing.length > 0)
    throw new Error(`not built: ${missing.join(", ")}. Run \`npm run setup\` first.`);
}

/** The pages that the daemon serves. */
async function copyPages(directory: string): Promise<void> {
  for (const name of pages)
    await cp(join(root, "packages", name, "dist"), join(directory, name), { recursive: true });
}

function requireDeclared(imported: ReadonlySet<string>, tree: PlacedTree): void {
  const missing = [...imported].filter((name) => !(name in tree.dependencies));
  if (missing.length > 0) throw new Error(`imported, but no dependency: ${missing.join(", ")}`);
}

async function stage(places: Places, name: string, manifest: object): Promise<string> {
  const directory = join(places.stagingDir, name);
  await mkdir(directory, { recursive: true });
  await writeJson(join(directory, "package.json"), manifest);
  await cp(join(root, "LICENSE"), join(directory, "LICENSE"));
  return directory;
}

async function writeJson(path: string, value: object): Promise<void> {
  await writeFile(path, `${JSON.stringify(value, null, 2)}\n`);
}

/** npm gives all files in a tarball the same time, so equal contents give equal tarballs. */
async function pack(places: Places, directory: string): Promise<Packed> {
  const args = ["pack", "--json", "--ignore-scripts", "--pack-destination", places.outputDir];
  const { stdout } = await run("npm", args, { cwd: directory });
  const [packed] = JSON.parse(stdout) as readonly { name: string; filename: string }[];
  if (packed === undefined) throw new Error(`npm packed nothing in ${directory}`);
  const file = join(places.outputDir, packed.filename);
  return { name: packed.name, file, directory };
}
