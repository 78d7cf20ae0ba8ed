/** Keeps unpacked images and their names consistent under concurrent requests. */
import { join } from "node:path";
import { ownTurn } from "../event-loop-turn.ts";
import type { ImageInfo, ImageProgress } from "../ports/image-store.ts";
import { ImageDirectories, REFERENCES_DIRECTORY } from "./image-directories.ts";
import type { ImageRecord } from "./image-directories.ts";
import type { ProgressReport } from "./progress.ts";
import type { ImageReference } from "./reference.ts";
import { ReferenceTable } from "./reference-table.ts";
import type { OwnerName, ReferenceEntry } from "./reference-table.ts";
import { SingleFlight } from "./single-flight.ts";

export type ProgressHandler = ((progress: ImageProgress) => void) | undefined;

/** Fills a new directory with a root file system. */
export type Unpack = (
  rootfs: string,
  progress: ProgressReport,
) => Promise<Pick<ImageRecord, "sizeBytes" | "diskBytes" | "env">>;

export interface PresentImage {
  readonly entry: ReferenceEntry;
  readonly record: ImageRecord;
}

/** Syncs the files below a directory to disk. */
export type SyncTree = (directory: string) => Promise<void>;

const PUBLISH_ATTEMPTS = 3;

export class ImageLibrary {
  readonly directories: ImageDirectories;
  readonly #references: ReferenceTable;
  readonly #nowMs: () => number;
  readonly #unpacking = new SingleFlight<void>();
  /** How many publications of an image are in progress, by digest. */
  readonly #publishing = new Map<string, number>();

  private constructor(
    directories: ImageDirectories,
    references: ReferenceTable,
    nowMs: () => number,
  ) {
    this.directories = directories;
    this.#references = references;
    this.#nowMs = nowMs;
  }

  /** Opens the library in a directory and removes what killed imports left there. */
  static async open(root: string, nowMs: () => number): Promise<ImageLibrary> {
    const directories = await ImageDirectories.open(root);
    return new ImageLibrary(
      directories,
      await ReferenceTable.open(join(root, REFERENCES_DIRECTORY)),
      nowMs,
    );
  }

  /** An owner's image by name, if both the name and the files exist. */
  async find(wanted: ImageReference, owner: OwnerName): Promise<PresentImage | undefined> {
    const entry = await this.#references.find(wanted, owner);
    const record = entry === undefined ? undefined : await this.directories.read(entry.digest);
    return entry === undefined || record === undefined ? undefined : { entry, record };
  }

  /** The images that an owner sees. */
  async list(owner: OwnerName): Promise<PresentImage[]> {
    const images: PresentImage[] = [];
    for (const entry of await this.#references.listFor(owner)) {
      await ownTurn();
      const record = await this.directories.read(entry.digest);
      if (record !== undefined) images.push({ entry, record });
    }
    return images;
  }

  /**
   * The image with a digest, unpacked if missing; concurrent requests of the same owner share the
   * work. An existing directory counts as complete, even after a power failure: only an image whose
   * digest does not survive a reboot may omit `syncTree`.
   */
  async ensure(
    digest: string,
    unpack: Unpack,
    options: {
      readonly owner?: OwnerName;
      readonly onProgress?: ProgressHandler;
      readonly syncTree?: SyncTree;
    } = {},
  ): Promise<ImageRecord | undefined> {
    const present = await this.directories.read(digest);
    if (present !== undefined) return present;
    // SECURITY: a failure of one owner's work, such as an exceeded quota, must not affect
    // another's. Guarded by image-owners.test.ts.
    const work = `${options.owner ?? ""} ${digest}`;
    await this.#unpacking.run(work, options.onProgress, async (progress) => {
      if ((await this.directories.read(digest)) !== undefined) return;
      await this.directories.inTemporary(async (temporary) => {
        const unpacked = await unpack(join(temporary, "rootfs"), progress);
        const record = { ...unpacked, digest, createdAtMs: this.#nowMs() };
        await this.directories.commit(
          temporary,
          record,
          options.syncTree ?? (async () => undefined),
        );
      });
    });
    return await this.directories.read(digest);
  }

  /** Makes sure that the image of an entry exists, and names it. */
  async publish(
    entry: ReferenceEntry,
    unpack: Unpack,
    options: {
      readonly onProgress?: ProgressHandler;
      readonly syncTree: SyncTree;
      /** Called last, before the image gets its name; may reject it. */
      readonly admit?: (record: ImageRecord) => Promise<void>;
    },
  ): Promise<ImageInfo> {
    const { digest } = entry;
    this.#publishing.set(digest, (this.#publishing.get(digest) ?? 0) + 1);
    try {
      for (let attempt = 0; attempt < PUBLISH_ATTEMPTS; attempt += 1) {
        const ensured = await this.ensure(digest, unpack, { ...options, owner: entry.owner });
        if (ensured !== undefined) await options.admit?.(ensured);
        const named = { ...entry, createdAtMs: this.#nowMs() };
        await this.#references.put(named);
        // Garbage collection may have removed the image just before its name was written.
        const record = await this.directories.read(digest);
        if (record !== undefined) return infoOf(named, record);
      }
    } finally {
      const left = (this.#publishing.get(digest) ?? 1) - 1;
      if (left > 0) this.#publishing.set(digest, left);
      else this.#publishing.delete(digest);
    }
    throw new Error(`The image ${digest} keeps disappearing after being unpacked.`);
  }

  /** Disk space of all images, and of those that an owner has under names other than `except`. */
  async usage(owner?: OwnerName, except?: string): Promise<LibraryUsage> {
    const names = (await this.#references.list()).filter(
      (entry) => entry.owner === owner && entry.reference !== except,
    );
    const own = new Set(names.map(({ digest }) => digest));
    const usage = { images: 0, totalBytes: 0, ownBytes: 0, ownNames: names.length };
    for (const digest of await this.directories.listDigests()) {
      await ownTurn();
      const record = await this.directories.read(digest);
      if (record === undefined) continue;
      const bytes = diskBytesOf(record);
      usage.images += 1;
      usage.totalBytes += bytes;
      if (own.has(digest)) usage.ownBytes += bytes;
    }
    return usage;
  }

  /** Removes an owner's name; the files stay for other users. Returns whether the name existed. */
  async removeName(canonical: string, owner: OwnerName): Promise<boolean> {
    return await this.#references.remove(canonical, owner);
  }

  /** Removes all images that have no name and are not in `kept`. */
  async collect(kept: ReadonlySet<string>): Promise<{ removed: number; freedBytes: number }> {
    const isWanted = async (digest: string): Promise<boolean> =>
      kept.has(digest) ||
      this.#publishing.has(digest) ||
      (await this.#references.list()).some((entry) => entry.digest === digest);
    const named = new Set((await this.#references.list()).map(({ digest }) => digest));
    let removed = 0;
    let freedBytes = 0;
    for (const digest of await this.directories.listDigests()) {
      await ownTurn();
      if (named.has(digest) || (await isWanted(digest))) continue;
      const sizeBytes = (await this.directories.read(digest))?.sizeBytes ?? 0;
      if (await this.directories.remove(digest, async () => await isWanted(digest))) {
        removed += 1;
        freedBytes += sizeBytes;
      }
    }
    return { removed, freedBytes };
  }
}

export interface LibraryUsage {
  readonly images: number;
  readonly totalBytes: number;
  readonly ownBytes: number;
  readonly ownNames: number;
}

export function diskBytesOf({ diskBytes, sizeBytes }: ImageRecord): number {
  return diskBytes ?? sizeBytes;
}

export function infoOf(
  entry: Pick<ReferenceEntry, "reference" | "source" | "owner" | "createdAtMs">,
  record: ImageRecord,
): ImageInfo {
  const { reference, source, owner, createdAtMs = record.createdAtMs } = entry;
  const { digest, sizeBytes, env } = record;
  return { reference, digest, source, sizeBytes, createdAtMs, env, shared: owner === undefined };
}
