/**
 * Builds everything that is published into `dist/release`: `npm run release`. The same sources give the
 * same bytes; SOURCE_DATE_EPOCH is the time that files carry. Set-up with `--tests` must have run.
 *
 *   --out DIR       another directory, which is emptied first
 *   --only PARTS    some of npm, python, debian, image
 *   --native DIR    programs for other platforms, in DIR/linux-arm64 and so on
 *   --base FILE     the root file system of the image as a tar archive, else mmdebstrap makes one
 */
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs, promisify } from "node:util";
import { writeBillOfMaterials } from "./bill-of-materials.ts";
import { writeChecksums } from "./checksums.ts";
import { buildImage } from "./container-image.ts";
import { buildDebian } from "./debian-package.ts";
import type { Lock } from "./dependency-tree.ts";
import type { Packed, Places, Platform } from "./npm-packages.ts";
import {
  packNative,
  packProgram,
  packSdk,
  packTools,
  platforms,
  requirePages,
} from "./npm-packages.ts";
import { buildPython } from "./python-packages.ts";
import { root, sourceDateEpoch } from "./versions.ts";

const parts = ["npm", "python", "debian", "image"];
const { values } = parseArgs({
  options: {
    out: { type: "string", default: join(root, "dist/release") },
    only: { type: "string", default: parts.join(",") },
    native: { type: "string" },
    base: { type: "string" },
  },
});
const wanted = new Set(values.only.split(","));
const unknown = [...wanted].filter((part) => !parts.includes(part));
if (unknown.length > 0)
  throw new Error(`no such part: ${unknown.join(", ")}; there are ${parts.join(", ")}`);
// File modes are part of what is published.
process.umask(0o022);
const outputDir = resolve(values.out);
await rm(outputDir, { recursive: true, force: true });
await mkdir(outputDir, { recursive: true });
const stagingDir = await mkdtemp(join(tmpdir(), "sandkasten-release-"));
try {
  await release({ outputDir, stagingDir });
} finally {
  await rm(stagingDir, { recursive: true, force: true });
}

async function release(places: Places): Promise<void> {
  const platform = platforms.find(({ cpu }) => cpu === process.arch);
  if (platform === undefined) throw new Error(`nothing is published for ${process.arch}`);
  const withProgram = ["npm", "debian", "image"].some((part) => wanted.has(part));
  if (withProgram) requirePages();
  if (wanted.has("npm")) {
    await step("@sandkasten/sdk", () => packSdk(places));
    await step("@sandkasten/tools", () => packTools(places));
  }
  if (wanted.has("python")) await step("Python packages", () => buildPython(places));
  if (withProgram) await releaseProgram(places, platform);
  await step("checksums", () => writeChecksums(outputDir));
  console.log(`release: everything is in ${outputDir}`);
}

async function releaseProgram(places: Places, platform: Platform): Promise<void> {
  const natives: Packed[] = [];
  for (const each of platforms) {
    const given = values.native === undefined ? undefined : join(values.native, each.name);
    const directory = each === platform ? join(root, "native/bin") : given;
    if (directory !== undefined && existsSync(directory))
      natives.push(
        await step(`native programs for ${each.name}`, () => packNative(places, each, directory)),
      );
  }
  const program = await step("sandkasten", () => packProgram(places, natives));
  const lock = JSON.parse(await readFile(join(root, "package-lock.json"), "utf8"));
  await step("bill of materials", () =>
    writeBillOfMaterials(places, program, lock.packages as Lock),
  );
  if (wanted.has("debian"))
    await step("Debian package", () => buildDebian(places, program, platform));
  if (wanted.has("image")) {
    const base = values.base ?? (await step("root file system", () => makeBase(places)));
    await step("container image", () => buildImage(places, program, platform, base));
  }
}

async function step<T>(name: string, act: () => Promise<T>): Promise<T> {
  const startedMs = performance.now();
  const result = await act();
  console.log(`release: ${name}, ${((performance.now() - startedMs) / 1000).toFixed(1)} s`);
  return result;
}

/** What Node needs to run, from Debian's packages; the same packages give the same bytes. */
async function makeBase({ stagingDir }: Places): Promise<string> {
  const file = join(stagingDir, "base.tar");
  const args = ["--variant=essential", "--include=libstdc++6,ca-certificates", "bookworm", file];
  const env = { ...process.env, SOURCE_DATE_EPOCH: String(sourceDateEpoch()) };
  await promisify(execFile)("mmdebstrap", args, { env });
  return file;
}
