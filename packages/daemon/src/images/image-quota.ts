/** Keeps each owner's images, and all images together, within their share of the disk. */
import { SandboxError } from "@sandkasten/protocol";
import type { ImageOwner, ImageUsage } from "../ports/image-store.ts";
import type { ImageRecord } from "./image-directories.ts";
import { diskBytesOf } from "./image-library.ts";
import type { ImageLibrary } from "./image-library.ts";

/**
 * Names per owner. Names of one image share its files, so their number is not limited by disk space, and
 * every import looks at all of them.
 */
const MAX_NAMES = 1_000;

/**
 * SECURITY: one tenant must not fill the shared disk, with one image, many, or several at a time
 * (threats: filling a disk and deep directory trees). Disk space is reserved before it is used,
 * including by imports in progress. Guarded by image-quota.test.ts.
 */
export class ImageQuota {
  readonly #library: ImageLibrary;
  readonly #maxTotalBytes: number;
  readonly #meters = new Set<ImageMeter>();
  #usage: ImageUsage;

  constructor(library: ImageLibrary, maxTotalBytes: number) {
    this.#library = library;
    this.#maxTotalBytes = maxTotalBytes;
    this.#usage = { images: 0, bytes: 0, maxBytes: maxTotalBytes };
  }

  /** As of the last measurement. */
  get usage(): ImageUsage {
    return this.#usage;
  }

  async refresh(): Promise<void> {
    const { images, totalBytes: bytes } = await this.#library.usage();
    this.#usage = { images, bytes, maxBytes: this.#maxTotalBytes };
  }

  /** Starts counting for an image that is about to be created, or to be replaced. */
  async begin(owner: ImageOwner | undefined, reference: string): Promise<ImageMeter> {
    const { totalBytes, ownBytes, ownNames } = await this.#library.usage(owner?.name, reference);
    const meter: ImageMeter = new ImageMeter(
      { totalBytes, ownBytes },
      owner,
      () => this.#check(meter),
      () => this.#end(meter),
    );
    if (owner !== undefined && ownNames + this.#others(meter, owner).length >= MAX_NAMES)
      throw tooMany();
    this.#meters.add(meter);
    return meter;
  }

  /** Rejects if an existing image, of any origin, exceeds an owner's quota. */
  async admit(meter: ImageMeter, reference: string, record: ImageRecord): Promise<void> {
    const { owner } = meter;
    if (owner === undefined) return;
    const { ownBytes } = await this.#library.usage(owner.name, reference);
    const others = this.#others(meter, owner).reduce((sum, { spentBytes }) => sum + spentBytes, 0);
    if (ownBytes + others + diskBytesOf(record) > owner.maxBytes) throw tooMuch(owner);
  }

  #check(meter: ImageMeter): void {
    const { owner, before } = meter;
    const spent = (meters: Iterable<ImageMeter>): number =>
      [...meters].reduce((sum, { spentBytes }) => sum + spentBytes, 0);
    if (before.totalBytes + spent(this.#meters) > this.#maxTotalBytes)
      throw new SandboxError(
        "STORAGE_FULL",
        `The image does not fit: all images together may use ${this.#maxTotalBytes} bytes on disk (images.max_total_bytes). Remove unused images.`,
      );
    if (owner === undefined) return;
    const own = before.ownBytes + meter.spentBytes + spent(this.#others(meter, owner));
    if (own > owner.maxBytes) throw tooMuch(owner);
  }

  /** Adds the used space to the totals of other meters, so it is not measured again. */
  #end(meter: ImageMeter): void {
    this.#meters.delete(meter);
    for (const other of this.#meters) {
      other.before.totalBytes += meter.spentBytes;
      if (other.owner?.name === meter.owner?.name) other.before.ownBytes += meter.spentBytes;
    }
  }

  #others(meter: ImageMeter, owner: ImageOwner): readonly ImageMeter[] {
    return [...this.#meters].filter((other) => other !== meter && other.owner?.name === owner.name);
  }
}

/** Counts the disk space of one image while it is created. */
export class ImageMeter implements Disposable {
  readonly owner: ImageOwner | undefined;
  /** What was already used, as far as known. */
  readonly before: { totalBytes: number; ownBytes: number };
  readonly #check: () => void;
  readonly #end: () => void;
  #spentBytes = 0;

  constructor(
    before: { totalBytes: number; ownBytes: number },
    owner: ImageOwner | undefined,
    check: () => void,
    end: () => void,
  ) {
    this.before = before;
    this.owner = owner;
    this.#check = check;
    this.#end = end;
  }

  get spentBytes(): number {
    return this.#spentBytes;
  }

  /** Throws if there is no room for this many more bytes. */
  readonly spend = (bytes: number): void => {
    this.#spentBytes += bytes;
    this.#check();
  };

  /** Returns space that was only used temporarily. */
  release(bytes: number): void {
    this.#spentBytes -= bytes;
  }

  [Symbol.dispose](): void {
    this.#end();
  }
}

function tooMany(): SandboxError {
  return new SandboxError(
    "QUOTA_EXCEEDED",
    `You have ${MAX_NAMES} images, which is the maximum. Remove images that you do not need.`,
    { details: { max_images: MAX_NAMES } },
  );
}

function tooMuch({ maxBytes }: ImageOwner): SandboxError {
  return new SandboxError(
    "QUOTA_EXCEEDED",
    `The image does not fit: your images may use ${maxBytes} bytes on disk. Remove images that you do not need.`,
    { details: { max_image_bytes: maxBytes } },
  );
}
