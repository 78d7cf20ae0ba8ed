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
};

/**
 * SECURITY: a small archive may hold an endless stream, millions of entries or a path of
 * thousands of directories (threats 20, 21, 25, 34). Everything is counted before it is
 * written. Guarded by hostile-images.test.ts.
 */
export class UnpackBudget {
  readonly limits: UnpackLimits;
  #bytes = 0;
  #entries = 0;

  constructor(limits: UnpackLimits) {
    this.limits = limits;
  }

  spendBytes(count: number): void {
    this.#bytes += count;
    if (this.#bytes > this.limits.totalBytes) {
      throw invalidImage(
        `The image is larger than ${this.limits.totalBytes} bytes when unpacked, which is the limit.`,
      );
    }
  }

  spendEntry(): void {
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
