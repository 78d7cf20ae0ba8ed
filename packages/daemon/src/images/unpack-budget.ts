/** Counts what unpacking an image uses up, and ends it when an image asks for too much. */
import { invalidImage } from "./image-failure.ts";

export interface UnpackLimits {
  /** Bytes of one image after decompression, all layers and headers together. */
  readonly totalBytes: number;
  readonly fileBytes: number;
  /** Entries of all layers together. */
  readonly entries: number;
  readonly layers: number;
  readonly pathDepth: number;
  readonly pathBytes: number;
  /** Bytes of an archive's blobs, or of a download, before decompression. */
  readonly archiveBytes: number;
  /** How many times as large as its archive an image may be, beyond the first 64 MiB. */
  readonly compressionRatio: number;
}

export interface BudgetOptions {
  /** Bytes of the archive or the download that all of it comes from. */
  readonly sourceBytes?: number;
  /** Told of disk space before it is used; ends the work by throwing. */
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

/** Any archive may become this large; a file of zeros is no attack. */
const RATIO_FREE_BYTES = 64 * 1024 ** 2;
/** What a file takes on the disk at least. */
const ENTRY_DISK_BYTES = 4096;

/**
 * SECURITY: a small archive may hold an endless stream, millions of entries or a path of
 * thousands of directories (threats: filling a disk, using up inodes, deep directory trees and hostile
 * archives and images). Everything is counted before it is written. Guarded by hostile-images.test.ts.
 */
export class UnpackBudget {
  readonly limits: UnpackLimits;
  readonly #charge: (bytes: number) => void;
  /** What its archive may become. */
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

  /** The disk space of what was counted. */
  get diskBytes(): number {
    return this.#bytes + this.#entries * ENTRY_DISK_BYTES;
  }

  spendBytes(count: number): void {
    this.#bytes += count;
    const { totalBytes, compressionRatio } = this.limits;
    if (this.#bytes > totalBytes) {
      throw invalidImage(
        `The image is larger than ${totalBytes} bytes when unpacked, which is the limit.`,
      );
    }
    if (this.#bytes > this.#ratioBytes) {
      throw invalidImage(
        `The image is more than ${compressionRatio} times as large as its archive when unpacked, which is the limit (images.max_compression_ratio). Compress it less.`,
      );
    }
    this.#charge(count);
  }

  spendEntry(): void {
    this.#charge(ENTRY_DISK_BYTES);
    this.#entries += 1;
    if (this.#entries > this.limits.entries) {
      throw invalidImage(
        `The image has more than ${this.limits.entries} files, which is the limit.`,
      );
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
