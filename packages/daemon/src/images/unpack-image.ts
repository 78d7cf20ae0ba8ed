/** Unpacks archives into root file systems. */
import { mkdir, stat } from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";
import { checkDigest, digestOf, withRegularFile } from "./image-blobs.ts";
import { decompress } from "./decompress.ts";
import { readImageArchive } from "./image-archive.ts";
import type { ImageArchiveOptions } from "./image-archive.ts";
import { invalidImage } from "./image-failure.ts";
import type { LayerFile } from "./image-plan.ts";
import { ImageTree } from "./image-tree.ts";
import { applyLayer } from "./layer.ts";
import type { LayerOptions } from "./layer.ts";
import { prepareRootfs } from "./prepare-rootfs.ts";
import type { ProgressReport } from "./progress.ts";
import { UnpackBudget } from "./unpack-budget.ts";
import type { UnpackLimits } from "./unpack-budget.ts";

export interface UnpackContext {
  readonly limits: UnpackLimits;
  /** Path of the `xz` program. */
  readonly xz: string;
  readonly progress: ProgressReport;
  /** Called before disk space is used; throws to stop the work. */
  readonly charge?: (bytes: number) => void;
}

/** The size of an unpacked image. */
export interface UnpackedSize {
  /** Bytes of its files. */
  readonly sizeBytes: number;
  /** Disk space, at least that much. */
  readonly diskBytes: number;
}

/** Unpacks the tarball of a whole root file system into a new directory. */
export async function unpackRootfs(
  tarball: FileHandle,
  rootfs: string,
  context: UnpackContext,
): Promise<UnpackedSize> {
  const sourceBytes = (await tarball.stat()).size;
  const budget = budgetOf(context, sourceBytes);
  const tree = await newTree(rootfs, budget);
  context.progress.begin("unpack", sourceBytes);
  const count = await applyArchive(tree, tarball, budget, context, {
    whiteouts: false,
    owners: "keep",
    endMarker: "required",
  });
  if (count === 0) throw invalidImage("The archive is empty.");
  if (tree.kind("oci-layout") === "file" && tree.kind("blobs") === "directory") {
    throw invalidImage(
      "The archive is an OCI archive, not a root file system. Import it as an OCI archive.",
    );
  }
  await prepareRootfs(tree);
  return { sizeBytes: tree.fileBytes, diskBytes: budget.diskBytes };
}

/**
 * Unpacks layers, lowest first, into a new directory.
 *
 * @param sourceBytes - Of the archive or the download that the layers come from.
 */
export async function unpackLayers(
  layers: readonly LayerFile[],
  rootfs: string,
  sourceBytes: number,
  context: UnpackContext,
): Promise<UnpackedSize> {
  const budget = budgetOf(context, sourceBytes);
  const tree = await newTree(rootfs, budget);
  budget.checkLayers(layers.length);
  let total = 0;
  for (const { path } of layers) total += await sizeOf(path);
  context.progress.begin("unpack", total);
  for (const [index, layer] of layers.entries()) {
    const what = `layer ${index + 1}`;
    await withRegularFile(layer.path, `The image's ${what}`, async (file) => {
      checkDigest(what, layer.digest, await digestOf(file));
      await applyArchive(tree, file, budget, context, {
        whiteouts: true,
        owners: "keep",
        endMarker: "optional",
      });
    });
  }
  await prepareRootfs(tree);
  return { sizeBytes: tree.fileBytes, diskBytes: budget.diskBytes };
}

/** Unpacks the outer archive of an image (which holds manifests and blobs) into a new directory. */
export async function unpackContainer(
  archive: FileHandle,
  directory: string,
  context: UnpackContext,
): Promise<ImageTree> {
  const { archiveBytes } = context.limits;
  const limits = {
    ...context.limits,
    totalBytes: archiveBytes,
    fileBytes: archiveBytes,
    entries: 20_000,
  };
  const budget = budgetOf({ ...context, limits }, (await archive.stat()).size);
  const tree = await newTree(directory, budget);
  await applyArchive(tree, archive, budget, context, {
    whiteouts: false,
    owners: "root",
    endMarker: "required",
  });
  return tree;
}

async function applyArchive(
  tree: ImageTree,
  file: FileHandle,
  budget: UnpackBudget,
  context: UnpackContext,
  options: LayerOptions & ImageArchiveOptions,
): Promise<number> {
  const bytes = decompress(file, {
    xz: context.xz,
    onRead: (count) => context.progress.advance(count),
  });
  return await applyLayer(tree, readImageArchive(budget.metered(bytes), options), budget, options);
}

function budgetOf({ limits, charge }: UnpackContext, sourceBytes: number): UnpackBudget {
  return new UnpackBudget(limits, { sourceBytes, ...(charge !== undefined && { charge }) });
}

async function newTree(directory: string, budget: UnpackBudget): Promise<ImageTree> {
  await mkdir(directory, { mode: 0o700 });
  const tree = new ImageTree(directory, () => budget.spendEntry());
  await tree.makeDirectory("", { uid: 0, gid: 0, mode: 0o755 });
  return tree;
}

/** 0 for a missing file: opening it gives a better error. */
async function sizeOf(path: string): Promise<number> {
  return await stat(path).then(
    (stats) => stats.size,
    () => 0,
  );
}
