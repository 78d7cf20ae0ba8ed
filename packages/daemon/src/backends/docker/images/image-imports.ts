/** Imports archives into an engine as images. */
import { mkdtemp, rm } from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";
import { join } from "node:path";
import { withRegularFile } from "../../../images/image-blobs.ts";
import { invalidImage } from "../../../images/image-failure.ts";
import { planArchive } from "../../../images/image-plan.ts";
import type { ImagePlan } from "../../../images/image-plan.ts";
import { ProgressReport } from "../../../images/progress.ts";
import type { ProgressListener } from "../../../images/progress.ts";
import type { ImageReference } from "../../../images/reference.ts";
import { unpackContainer } from "../../../images/unpack-image.ts";
import { UnpackBudget } from "../../../images/unpack-budget.ts";
import type { UnpackLimits } from "../../../images/unpack-budget.ts";
import { checkArchive, plainArchive } from "./checked-archive.ts";
import { dockerArchive } from "./docker-archive.ts";
import type { ArchivedLayer } from "./docker-archive.ts";
import { EngineWorkFailed } from "./engine-events.ts";
import type { EngineImages } from "./engine-images.ts";
import { engineRepository } from "./image-names.ts";
import { withoutSecrets } from "./pull-failure.ts";

export interface ImageImportsOptions {
  readonly engine: EngineImages;
  readonly limits: UnpackLimits;
  /** Path of the `xz` program. */
  readonly xz: string;
  /** Must have space for an archive's layers. */
  readonly temporaryDir: string;
  readonly timeoutMs: number;
}

export class ImageImports {
  readonly #options: ImageImportsOptions;

  constructor(options: ImageImportsOptions) {
    this.#options = options;
  }

  async importRootfs(
    reference: ImageReference,
    tarball: string,
    onProgress: ProgressListener | undefined,
  ): Promise<void> {
    const { engine, limits, xz } = this.#options;
    await withArchiveFile(tarball, async (file, fileBytes) => {
      const budget = new UnpackBudget(limits, { sourceBytes: fileBytes });
      const checked = await checkArchive(file, { budget, xz }, "required");
      if (checked.entries === 0) throw invalidImage("The archive is empty.");
      if (checked.isImage)
        throw invalidImage(
          "The archive is an OCI archive, not a root file system. Import it as an OCI archive.",
        );
      const progress = reportTo(onProgress, fileBytes);
      const onRead = (bytes: number): void => progress.advance(bytes);
      await this.#send((signal) =>
        engine.importRootfs(reference, plainArchive(file, checked, { xz, onRead }), signal),
      );
    });
  }

  /** Accepts OCI archives and `docker save` archives. */
  async importOciArchive(
    reference: ImageReference,
    archive: string,
    onProgress: ProgressListener | undefined,
  ): Promise<void> {
    const { engine, limits, xz, temporaryDir } = this.#options;
    const temporary = await mkdtemp(join(temporaryDir, "sandkasten-image-"));
    try {
      const directory = join(temporary, "archive");
      const context = { limits, xz, progress: new ProgressReport() };
      const { tree, sourceBytes } = await withArchiveFile(archive, async (file, bytes) => ({
        tree: await unpackContainer(file, directory, context),
        sourceBytes: bytes,
      }));
      const plan = await planArchive(directory, tree, reference, limits);
      const { layers, fileBytes } = await this.#checkLayers(plan, sourceBytes);
      const progress = reportTo(onProgress, fileBytes);
      const name = `${engineRepository(reference)}:${reference.tag}`;
      const image = { name, config: plan.config, layers };
      const onRead = (bytes: number): void => progress.advance(bytes);
      await this.#send((signal) => engine.load(dockerArchive(image, { xz, onRead }), signal));
    } finally {
      await rm(temporary, { recursive: true, force: true });
    }
  }

  async #checkLayers(
    plan: ImagePlan,
    sourceBytes: number,
  ): Promise<{ readonly layers: readonly ArchivedLayer[]; readonly fileBytes: number }> {
    const { limits, xz } = this.#options;
    const budget = new UnpackBudget(limits, { sourceBytes });
    budget.checkLayers(plan.layers.length);
    const layers: ArchivedLayer[] = [];
    let fileBytes = 0;
    for (const [index, { path }] of plan.layers.entries()) {
      await withRegularFile(path, `The image's layer ${index + 1}`, async (file, sizeBytes) => {
        fileBytes += sizeBytes;
        layers.push({ path, checked: await checkArchive(file, { budget, xz }, "optional") });
      });
    }
    return { layers, fileBytes };
  }

  async #send(send: (signal: AbortSignal) => Promise<void>): Promise<void> {
    const tooLate = AbortSignal.timeout(this.#options.timeoutMs);
    try {
      await send(tooLate);
    } catch (error) {
      if (!(error instanceof EngineWorkFailed)) throw error;
      // Engines name their own directories in errors.
      const reason = withoutSecrets(error.message, []).replace(/\/\S*docker-import-\d+\//g, "");
      throw invalidImage(`The Docker engine cannot use the archive: ${reason}.`);
    }
  }
}

function reportTo(listener: ProgressListener | undefined, totalBytes: number): ProgressReport {
  const progress = new ProgressReport();
  progress.add(listener);
  progress.begin("unpack", totalBytes);
  return progress;
}

/** A path from the operator may be a link to the archive. */
async function withArchiveFile<T>(
  path: string,
  work: (file: FileHandle, sizeBytes: number) => Promise<T>,
): Promise<T> {
  return await withRegularFile(path, `The archive ${path}`, work, { followLinks: true });
}
