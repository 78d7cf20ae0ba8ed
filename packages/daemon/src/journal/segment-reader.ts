/** Opens a segment for reading, as late as possible. */
import * as fs from "node:fs";
import { promisify } from "node:util";

const open = promisify(fs.open);
const read = promisify(fs.read);

/** Reads through an already open file; undefined if that is not possible. */
type ReadNow = (target: Buffer, position: number) => number | undefined;

export class SegmentReader {
  readonly #path: string;
  readonly #readNow: ReadNow | undefined;
  #descriptor: number | undefined;

  constructor(path: string, readNow?: ReadNow) {
    this.#path = path;
    this.#readNow = readNow;
  }

  /** Fills the target, or part of it at the end of the file. */
  async readAt(target: Buffer, position: number): Promise<number> {
    let length = 0;
    while (length < target.length) {
      const rest = length === 0 ? target : target.subarray(length);
      const count =
        this.#readNow?.(rest, position + length) ?? (await this.#read(rest, position + length));
      if (count === 0) break;
      length += count;
    }
    return length;
  }

  /** Synchronous: the kernel knows an open file's size without disk access. */
  async size(): Promise<number> {
    return fs.fstatSync(await this.#open()).size;
  }

  close(): void {
    if (this.#descriptor !== undefined) fs.closeSync(this.#descriptor);
    this.#descriptor = undefined;
  }

  async #read(target: Buffer, position: number): Promise<number> {
    const descriptor = await this.#open();
    return (await read(descriptor, target, 0, target.length, position)).bytesRead;
  }

  async #open(): Promise<number> {
    const { O_RDONLY, O_NOFOLLOW } = fs.constants;
    this.#descriptor ??= await open(this.#path, O_RDONLY | O_NOFOLLOW);
    return this.#descriptor;
  }
}
