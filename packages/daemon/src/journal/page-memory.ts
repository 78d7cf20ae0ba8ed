/** Memory for the blocks of one page: the reader's own as long as it lasts, then new memory. */

export class PageMemory {
  #rest: Buffer | undefined;

  constructor(memory?: Buffer) {
    this.#rest = memory;
  }

  /** Never overlaps what was taken before, since chunks of the page point to that. */
  take(bytes: number): Buffer {
    const rest = this.#rest;
    if (rest === undefined || rest.length < bytes) return Buffer.allocUnsafe(bytes);
    this.#rest = rest.subarray(bytes);
    return rest.subarray(0, bytes);
  }
}
