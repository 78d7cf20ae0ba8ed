/** Creates images from archives and registries: counted, unpacked, synced, then named. */
import { createHash } from "node:crypto";
import { mkdir } from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";
import { join } from "node:path";
import type { ImageInfo, ImageOrigin, ImageOwner } from "../ports/image-store.ts";
import { digestOf, withRegularFile } from "./image-blobs.ts";
import { invalidImage } from "./image-failure.ts";
import type { ImageLibrary, ProgressHandler, SyncTree, Unpack } from "./image-library.ts";
import { checkPin, planArchive, planDownload } from "./image-plan.ts";
import type { ImageMeter, ImageQuota } from "./image-quota.ts";
import { ProgressReport } from "./progress.ts";
import type { ImageReference } from "./reference.ts";
import type { RegistryImages } from "./registry-images.ts";
import { runTool } from "./tool.ts";
import { UnpackBudget } from "./unpack-budget.ts";
import type { UnpackLimits } from "./unpack-budget.ts";
import { unpackContainer, unpackLayers, unpackRootfs } from "./unpack-image.ts";
import type { UnpackContext } from "./unpack-image.ts";

const SYNC_TIMEOUT_MS = 10 * 60_000;

/** External programs, preferably by absolute path. */
export interface ImageTools {
  readonly xz: string;
  readonly sync: string;
  /** The whole environment of credential helpers and sync. */
  readonly env: Readonly<Record<string, string>>;
}

export interface ImageCreationParts {
  readonly tools: ImageTools;
  readonly limits: UnpackLimits;
  readonly remote: RegistryImages;
  readonly library: ImageLibrary;
  readonly quota: ImageQuota;
  /** Called after an image got its name. */
  readonly changed: () => Promise<void>;
}

/** An image that is about to get a name. */
interface NewImage {
  readonly wanted: ImageReference;
  readonly found: { readonly digest: string; readonly sourceDigest: string };
  readonly source: ImageInfo["source"];
  readonly onProgress: ProgressHandler;
}

/** For one owner, or for the administrator. */
export class ImageCreation {
  readonly #parts: ImageCreationParts;
  readonly #owner: ImageOwner | undefined;

  constructor(parts: ImageCreationParts, owner: ImageOwner | undefined) {
    this.#parts = parts;
    this.#owner = owner;
  }

  async fromRootfs(
    wanted: ImageReference,
    tarball: string,
    onProgress: ProgressHandler,
    env: Readonly<Record<string, string>>,
    origin?: ImageOrigin,
  ): Promise<ImageInfo> {
    return await withArchiveFile(tarball, async (file) => {
      const before = await fileVersion(file);
      const sourceDigest = await digestOf(file);
      const digest = withVariables(sourceDigest, env);
      const found = { digest, sourceDigest };
      checkPin(wanted, found);
      const image = { wanted, found, source: "rootfs", onProgress } as const;
      return await this.#metered(
        wanted,
        async (meter) =>
          await this.#publish(image, meter, async (rootfs, progress) => {
            const size = await unpackRootfs(file, rootfs, this.#context(progress, meter));
            if ((await fileVersion(file)) !== before) {
              throw invalidImage(
                `The archive ${tarball} changed while it was being read. Import it again.`,
              );
            }
            await origin?.check();
            return { ...size, env };
          }),
      );
    });
  }

  async fromOciArchive(
    wanted: ImageReference,
    archive: string,
    onProgress: ProgressHandler,
  ): Promise<ImageInfo> {
    return await this.#metered(
      wanted,
      async (meter) =>
        await this.#parts.library.directories.inTemporary(async (temporary) => {
          const directory = join(temporary, "archive");
          const context = this.#context(new ProgressReport(), meter);
          const { tree, sourceBytes } = await withArchiveFile(archive, async (file) => ({
            tree: await unpackContainer(file, directory, context),
            sourceBytes: (await file.stat()).size,
          }));
          const blobBytes = meter.spentBytes;
          const plan = await planArchive(directory, tree, wanted, this.#parts.limits);
          checkPin(wanted, plan);
          const image = { wanted, found: plan, source: "oci-archive", onProgress } as const;
          return await this.#publish(image, meter, async (rootfs, progress) => {
            const { layers, env } = plan;
            const unpacking = this.#context(progress, meter);
            const size = await unpackLayers(layers, rootfs, sourceBytes, unpacking);
            meter.release(blobBytes);
            return { ...size, env };
          });
        }),
    );
  }

  async fromRegistry(wanted: ImageReference, onProgress: ProgressHandler): Promise<ImageInfo> {
    const remote = await this.#parts.remote.locate(wanted);
    new UnpackBudget(this.#parts.limits).checkLayers(remote.layerCount);
    const { archiveBytes } = this.#parts.limits;
    if (remote.downloadBytes > archiveBytes) {
      throw invalidImage(
        `The download of ${wanted.canonical} has ${remote.downloadBytes} bytes; the limit is ${archiveBytes}.`,
      );
    }
    const image = { wanted, found: remote, source: "registry", onProgress } as const;
    return await this.#metered(
      wanted,
      async (meter) =>
        await this.#publish(
          image,
          meter,
          async (rootfs, progress) =>
            await this.#parts.library.directories.inTemporary(async (temporary) => {
              const directory = join(temporary, "download");
              await mkdir(directory, { mode: 0o700 });
              progress.begin("download", remote.downloadBytes);
              meter.spend(remote.downloadBytes);
              await this.#parts.remote.download(wanted, remote, directory, (bytes) =>
                progress.set(bytes),
              );
              const { layers, env } = await planDownload(directory, remote.digest);
              const unpacking = this.#context(progress, meter);
              const size = await unpackLayers(layers, rootfs, remote.downloadBytes, unpacking);
              meter.release(remote.downloadBytes);
              return { ...size, env };
            }),
        ),
    );
  }

  /** Counts the disk space of an image while it is created. */
  async #metered<T>(
    { canonical }: ImageReference,
    work: (meter: ImageMeter) => Promise<T>,
  ): Promise<T> {
    using meter = await this.#parts.quota.begin(this.#owner, canonical);
    try {
      return await work(meter);
    } catch (error) {
      // Everything written was removed again.
      meter.release(meter.spentBytes);
      throw error;
    }
  }

  async #publish(image: NewImage, meter: ImageMeter, unpack: Unpack): Promise<ImageInfo> {
    const { wanted, found, source, onProgress } = image;
    const { canonical: reference, repository } = wanted;
    const { digest, sourceDigest } = found;
    const owner = this.#owner && { owner: this.#owner.name };
    const entry = { reference, repository, digest, sourceDigest, source, ...owner };
    const syncTree: SyncTree = async (directory) => await this.#syncTree(directory);
    const published = await this.#parts.library.publish(entry, unpack, {
      onProgress,
      syncTree,
      admit: async (record) => await this.#parts.quota.admit(meter, reference, record),
    });
    await this.#parts.changed();
    return published;
  }

  async #syncTree(directory: string): Promise<void> {
    const { sync, env } = this.#parts.tools;
    const result = await runTool(sync, ["-f", directory], { env, timeoutMs: SYNC_TIMEOUT_MS });
    if (result.exitCode !== 0)
      throw new Error(`${sync} -f failed: ${result.ended ?? result.stderr.trim()}`);
  }

  #context(progress: ProgressReport, { spend: charge }: ImageMeter): UnpackContext {
    return { limits: this.#parts.limits, xz: this.#parts.tools.xz, progress, charge };
  }
}

/** The same files with different variables are a different image. */
function withVariables(digest: string, env: Readonly<Record<string, string>>): string {
  const names = Object.keys(env).toSorted();
  if (names.length === 0) return digest;
  const content = JSON.stringify([digest, names.map((name) => [name, env[name]])]);
  return `sha256:${createHash("sha256").update(content).digest("hex")}`;
}

/** A path from the operator may be a link to the archive. */
async function withArchiveFile<T>(
  path: string,
  work: (file: FileHandle) => Promise<T>,
): Promise<T> {
  return await withRegularFile(path, `The archive ${path}`, work, { followLinks: true });
}

/** Changes whenever an open file is written to. */
async function fileVersion(file: FileHandle): Promise<string> {
  const { size, mtimeNs, ctimeNs } = await file.stat({ bigint: true });
  return `${size}:${mtimeNs}:${ctimeNs}`;
}
