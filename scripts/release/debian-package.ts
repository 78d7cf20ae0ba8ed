/**
 * The Debian package: the program with its npm packages, the native programs, Node, and a service.
 * It brings Node because Debian's is too old: docs/adr/0017-releases-contain-what-was-tested.md.
 */
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { createReadStream, globSync, statSync } from "node:fs";
import { chmod, cp, lutimes, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { pipeline } from "node:stream/promises";
import { promisify } from "node:util";
import { gzipSync } from "node:zlib";
import type { Packed, Places, Platform } from "./npm-packages.ts";
import { nativePackage, platforms } from "./npm-packages.ts";
import { readManifest, root, sourceDateEpoch, version } from "./versions.ts";

const run = promisify(execFile);

/**
 * What a daemon needs according to `scripts/apt-packages.txt`, without npm, which is only needed to
 * install.
 */
export const debianDependencies = ["crun | runc", "e2fsprogs", "libstdc++6", "uidmap", "xz-utils"];

const source = (name: string): string => join(root, "deploy/debian", name);

/** The program with everything it needs except Node's own libraries, as it is installed. */
export async function layOutProgram(
  directory: string,
  program: Packed,
  platform: Platform,
): Promise<void> {
  const others = platforms
    .filter((each) => each !== platform)
    .map((each) => join(program.directory, "node_modules", nativePackage(each)));
  await cp(program.directory, directory, {
    recursive: true,
    filter: (path) => !others.includes(path),
  });
  await mkdir(join(directory, "bin"), { recursive: true });
  await cp(process.execPath, join(directory, "bin/node"), { dereference: true });
}

export async function buildDebian(
  { outputDir, stagingDir }: Places,
  program: Packed,
  platform: Platform,
): Promise<string> {
  const tree = join(stagingDir, "debian");
  const place = async (name: string, path: string, mode = 0o644): Promise<void> => {
    await mkdir(dirname(join(tree, path)), { recursive: true });
    await cp(name, join(tree, path));
    await chmod(join(tree, path), mode);
  };
  await layOutProgram(join(tree, "usr/lib/sandkasten"), program, platform);
  await place(source("sandkasten"), "usr/bin/sandkasten", 0o755);
  await place(source("sandkasten.service"), "usr/lib/systemd/system/sandkasten.service");
  await place(join(root, "docs/guides/install.md"), "usr/share/doc/sandkasten/README.md");
  await place(join(root, "LICENSE"), "usr/share/doc/sandkasten/copyright");
  const changes = gzipSync(await readFile(join(root, "CHANGELOG.md")));
  await writeFile(join(tree, "usr/share/doc/sandkasten/changelog.gz"), changes);
  await mkdir(join(tree, "etc/sandkasten"), { recursive: true });
  const settings = join(tree, "etc/sandkasten/sandkasten.yaml");
  const init = [join(program.directory, "dist/main.js"), "init", "--yes", "--output", settings];
  await run(process.execPath, init);
  // A key may be added later.
  await chmod(settings, 0o600);
  for (const script of ["postinst", "prerm", "postrm"])
    await place(source(script), `DEBIAN/${script}`, 0o755);
  await writeFile(join(tree, "DEBIAN/conffiles"), "/etc/sandkasten/sandkasten.yaml\n");
  await writeFile(join(tree, "DEBIAN/control"), await control(tree, platform));
  await writeFile(join(tree, "DEBIAN/md5sums"), await checksums(tree));
  await normaliseModes(tree);
  const file = join(outputDir, `sandkasten_${version}_${platform.debian}.deb`);
  await run("dpkg-deb", ["--root-owner-group", "-Zzstd", "-z9", "--build", tree, file], {
    env: { ...process.env, SOURCE_DATE_EPOCH: String(sourceDateEpoch()) },
  });
  await rm(tree, { recursive: true });
  return file;
}

async function control(tree: string, platform: Platform): Promise<string> {
  const { stdout } = await run("du", ["--apparent-size", "-sk", join(tree, "usr")]);
  return `${[
    "Package: sandkasten",
    `Version: ${version}`,
    `Architecture: ${platform.debian}`,
    `Maintainer: ${readManifest(".").author} <sandkasten@example.com>`,
    `Installed-Size: ${Number.parseInt(stdout, 10)}`,
    `Depends: libc6 (>= 2.28), ${debianDependencies.join(", ")}`,
    "Section: admin",
    "Priority: optional",
    "Description: Linux sandboxes for AI agents",
    " A daemon that creates sandboxes in milliseconds, and a command line for it.",
    " Each sandbox has its own user ids, seccomp profile, limits and disk.",
  ].join("\n")}\n`;
}

function filesBelow(tree: string): readonly string[] {
  return globSync("**/*", { cwd: tree })
    .filter((path) => statSync(join(tree, path)).isFile())
    .toSorted();
}

async function checksums(tree: string): Promise<string> {
  const lines: string[] = [];
  for (const path of filesBelow(tree)) {
    if (path.startsWith("DEBIAN/")) continue;
    const digest = createHash("md5");
    await pipeline(createReadStream(join(tree, path)), digest);
    lines.push(`${digest.digest("hex")}  ${path}\n`);
  }
  return lines.join("");
}

/** Independent of the builder's umask. dpkg-deb clamps times that are later than the sources'. */
async function normaliseModes(tree: string): Promise<void> {
  await run("chmod", ["-R", "u=rwX,go=rX", tree]);
  await chmod(join(tree, "etc/sandkasten/sandkasten.yaml"), 0o600);
  const time = sourceDateEpoch();
  const all = ["", ...globSync("**/*", { cwd: tree })].toSorted().toReversed();
  for (const path of all) await lutimes(join(tree, path), time, time);
}
