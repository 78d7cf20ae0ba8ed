/** Counts the resources that unpacking an image uses, and stops an image that exceeds a limit. */
import { invalidImage } from "./image-failure.ts";

export interface UnpackLimits {
  /** Decompressed bytes of one image, including all layers and headers. */
  readonly totalBytes: number;
  readonly fileBytes: number;
  /** Entries of all layers together. */
  readonly entries: number;
  readonly layers: number;
  readonly pathDepth: number;
  readonly pathBytes: number;
  /** Bytes of an archive's blobs, or of a download, before decompression. */
  readonly archiveBytes: number;
  /** How many times larger than its archive an image may be, beyond the first 64 MiB. */
  readonly compressionRatio: number;
}

export interface BudgetOptions {
  /** Bytes of the archive or download that contains the image. */
  readonly sourceBytes?: number;
  /** Called before disk space is used; throws to stop the work. */
  readonly charge?: (bytes: number) => void;
}

const GIB = 1024 ** 3;

export const DEFAULT_UNPACK_LIMITS: UnpackLimits = {
  totalBytes: 20 * GIB,
  fileBytes: 8 * GIB,
  entries: 1_000_000,
  layers: 128,
  pathDepth: 64,
  pathBytes: 2048,
  archiveBytes: 10 * GIB,
  compressionRatio: 100,
};

/** Any archive may grow to this size; a file of zeros is not an attack. */
const RATIO_FREE_BYTES = 64 * 1024 ** 2;
/** The minimum disk space of a file. */
const ENTRY_DISK_BYTES = 4096;

/**
 * SECURITY: a small archive may hold an endless stream, millions of entries or a path of thousands
 * of directories (threats: filling a disk, using up inodes, deep directory trees and hostile
 * archives and images). Everything is counted before it is written. Guarded by
 * hostile-images.test.ts.
 */
export class UnpackBudget {
  readonly limits: UnpackLimits;
  readonly #charge: (bytes: number) => void;
  /** The size limit from the compression ratio. */
  readonly #ratioBytes: number;
  #bytes = 0;
  #entries = 0;

  constructor(limits: UnpackLimits, { sourceBytes, charge }: BudgetOptions = {}) {
    this.limits = limits;
    this.#charge = charge ?? ((): void => undefined);
    this.#ratioBytes =
      sourceBytes === undefined
        ? Infinity
        : Math.max(RATIO_FREE_BYTES, sourceBytes * limits.compressionRatio);
  }

  /** The disk space of everything counted so far. */
  get diskBytes(): number {
    return this.#bytes + this.#entries * ENTRY_DISK_BYTES;
  }

  spendBytes(count: number): void {
    this.#bytes += count;
    const { totalBytes, compressionRatio } = this.limits;
    if (this.#bytes > totalBytes) {
      throw invalidImage(`The unpacked image exceeds the limit of ${totalBytes} bytes.`);
    }
    if (this.#bytes > this.#ratioBytes) {
      throw invalidImage(
        `The unpacked image is more than ${compressionRatio} times as large as its archive, which exceeds images.max_compression_ratio. Compress it less, or raise the limit.`,
      );
    }
    this.#charge(count);
  }

  spendEntry(): void {
    this.#charge(ENTRY_DISK_BYTES);
    this.#entries += 1;
    if (this.#entries > this.limits.entries) {
      throw invalidImage(`The image exceeds the limit of ${this.limits.entries} files.`);
    }
  }

  checkFile(path: string, sizeBytes: number): void {
    if (sizeBytes > this.limits.fileBytes) {
      throw invalidImage(
        `The image's file /${path} has ${sizeBytes} bytes; the limit for one file is ${this.limits.fileBytes}.`,
      );
    }
  }

  checkLayers(count: number): void {
    if (count > this.limits.layers) {
      throw invalidImage(`The image has ${count} layers; the limit is ${this.limits.layers}.`);
    }
  }

  /** Passes bytes on and counts them. */
  async *metered(source: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    for await (const chunk of source) {
      this.spendBytes(chunk.length);
      yield chunk;
    }
  }
}
