/** Unpacked images and the names they have, kept true to each other while several ask at once. */
import { join } from "node:path";
import type { ImageInfo, ImageProgress } from "../ports/image-store.ts";
import { ImageDirectories } from "./image-directories.ts";
import type { ImageRecord } from "./image-directories.ts";
import type { ProgressReport } from "./progress.ts";
import type { ImageReference } from "./reference.ts";
import { ReferenceTable } from "./reference-table.ts";
import type { ReferenceEntry } from "./reference-table.ts";
import { SingleFlight } from "./single-flight.ts";

export type ProgressHandler = ((progress: ImageProgress) => void) | undefined;

/** Fills a new directory with a root filesystem. */
export type Unpack = (
  rootfs: string,
  progress: ProgressReport,
) => Promise<Pick<ImageRecord, "sizeBytes" | "env">>;

export interface PresentImage {
  readonly entry: ReferenceEntry;
  readonly record: ImageRecord;
}

/** Brings the files below a directory to the disk. */
export type SyncTree = (directory: string) => Promise<void>;

const PUBLISH_ATTEMPTS = 3;

export class ImageLibrary {
  readonly directories: ImageDirectories;
  readonly #references: ReferenceTable;
  readonly #nowMs: () => number;
  readonly #unpacking = new SingleFlight<void>();

  private constructor(
    directories: ImageDirectories,
    references: ReferenceTable,
    nowMs: () => number,
  ) {
    this.directories = directories;
    this.#references = references;
    this.#nowMs = nowMs;
  }

  /** Opens the library in a directory and sweeps what killed imports left there. */
  static async open(root: string, nowMs: () => number): Promise<ImageLibrary> {
    const directories = await ImageDirectories.open(root);
    return new ImageLibrary(
      directories,
      await ReferenceTable.open(join(root, "references")),
      nowMs,
    );
  }

  /** An image by name, if both its name and its files are there. */
  async find(wanted: ImageReference): Promise<PresentImage | undefined> {
    const entry = await this.#references.find(wanted);
    const record = entry === undefined ? undefined : await this.directories.read(entry.digest);
    return entry === undefined || record === undefined ? undefined : { entry, record };
  }

  async list(): Promise<PresentImage[]> {
    const images: PresentImage[] = [];
    for (const entry of await this.#references.list()) {
      const record = await this.directories.read(entry.digest);
      if (record !== undefined) images.push({ entry, record });
    }
    return images;
  }

  /**
   * The image of a digest, unpacked now if it is not there; once for all who ask at the same time.
   * A directory that is in place counts as whole, also after a power cut: only an image whose
   * digest does not outlive the machine's start may do without `syncTree`.
   */
  async ensure(
    digest: string,
    unpack: Unpack,
    options: { readonly onProgress?: ProgressHandler; readonly syncTree?: SyncTree } = {},
  ): Promise<ImageRecord | undefined> {
    const present = await this.directories.read(digest);
    if (present !== undefined) return present;
    await this.#unpacking.run(digest, options.onProgress, async (progress) => {
      if ((await this.directories.read(digest)) !== undefined) return;
      await this.directories.inTemporary(async (temporary) => {
        const { sizeBytes, env } = await unpack(join(temporary, "rootfs"), progress);
        const record = { digest, sizeBytes, env, createdAtMs: this.#nowMs() };
        await this.directories.commit(
          temporary,
          record,
          options.syncTree ?? (async () => undefined),
        );
      });
    });
    return await this.directories.read(digest);
  }

  /** Sees to it that the image of an entry is there, and gives it its name. */
  async publish(
    entry: ReferenceEntry,
    unpack: Unpack,
    options: { readonly onProgress?: ProgressHandler; readonly syncTree: SyncTree },
  ): Promise<ImageInfo> {
    for (let attempt = 0; attempt < PUBLISH_ATTEMPTS; attempt += 1) {
      await this.ensure(entry.digest, unpack, options);
      await this.#references.put(entry);
      // A collection of garbage may have taken the image just before its name was written.
      const record = await this.directories.read(entry.digest);
      if (record !== undefined) return infoOf(entry.reference, entry.source, record);
    }
    throw new Error(`The image ${entry.digest} vanishes as often as it is unpacked.`);
  }

  /** Takes a name away; the files stay for those who use them. Tells whether there was such a name. */
  async removeName(canonical: string): Promise<boolean> {
    return await this.#references.remove(canonical);
  }

  /** Removes all images that have no name and are not `kept`. */
  async collect(kept: ReadonlySet<string>): Promise<{ removed: number; freedBytes: number }> {
    const isWanted = async (digest: string): Promise<boolean> =>
      kept.has(digest) ||
      this.#unpacking.has(digest) ||
      (await this.#references.list()).some((entry) => entry.digest === digest);
    let removed = 0;
    let freedBytes = 0;
    for (const digest of await this.directories.listDigests()) {
      if (await isWanted(digest)) continue;
      const sizeBytes = (await this.directories.read(digest))?.sizeBytes ?? 0;
      if (await this.directories.remove(digest, async () => await isWanted(digest))) {
        removed += 1;
        freedBytes += sizeBytes;
      }
    }
    return { removed, freedBytes };
  }
}

export function infoOf(
  reference: string,
  source: ImageInfo["source"],
  record: ImageRecord,
): ImageInfo {
  const { digest, sizeBytes, createdAtMs, env } = record;
  return { reference, digest, source, sizeBytes, createdAtMs, env };
}
