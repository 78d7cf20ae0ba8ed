/** A project with only the SDK, as npm packs it. */
import { execFile } from "node:child_process";
import { cp, mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);
export const root = join(import.meta.dirname, "../../../..");

export interface PackedPackage extends AsyncDisposable {
  /** The project. */
  readonly directory: string;
  /** The package in it. */
  readonly packageDir: string;
  /** What is in the tarball. */
  readonly files: readonly string[];
}

/** A project with the SDK. */
export async function installPackedPackage(): Promise<PackedPackage> {
  const directory = await mkdtemp(join(tmpdir(), "sandkasten-sdk-pack-"));
  const { packageDir, files } = await packInto(directory, "sdk");
  await writeFile(join(directory, "package.json"), '{ "type": "module" }');
  return {
    directory,
    packageDir,
    files,
    [Symbol.asyncDispose]: () => rm(directory, { recursive: true, force: true }),
  };
}

/**
 * Installs one of our packages, as npm packs it, into the `node_modules` of a project. A copy is
 * packed, because npm temporarily changes the manifest while packing.
 */
export async function packInto(
  directory: string,
  name: "sdk" | "tools",
): Promise<Pick<PackedPackage, "packageDir" | "files">> {
  const repository = join(directory, "repository");
  const packageDir = join(directory, "node_modules/@sandkasten", name);
  await mkdir(join(repository, "packages"), { recursive: true });
  await mkdir(packageDir, { recursive: true });
  const shared = [
    // npm reads its settings from the root of the repository.
    ".npmrc",
    "package.json",
    "node_modules",
    "scripts",
    ".toolchain",
    "tsconfig.base.json",
    "packages/protocol",
  ];
  for (const one of shared) await symlink(join(root, one), join(repository, one));
  const copy = join(repository, "packages", name);
  await cp(join(root, "packages", name), copy, {
    recursive: true,
    filter: (path) => !/\/(node_modules|dist)$/.test(path),
  });
  const { stdout } = await run("npm", ["pack", "--json", "--pack-destination", directory], {
    cwd: copy,
  });
  // Scripts print before npm does.
  const [packed] = JSON.parse(stdout.slice(stdout.search(/^\[/m))) as readonly {
    readonly filename: string;
    readonly files: readonly { readonly path: string }[];
  }[];
  await run("tar", [
    "--extract",
    "--strip-components=1",
    `--file=${join(directory, packed!.filename)}`,
    `--directory=${packageDir}`,
  ]);
  await rm(repository, { recursive: true });
  return { packageDir, files: packed!.files.map(({ path }) => path).toSorted() };
}
