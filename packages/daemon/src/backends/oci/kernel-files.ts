/**
 * Reads small files in which the kernel tells about a sandbox. Reads are synchronous: the kernel
 * answers from memory within microseconds, and an asynchronous read takes several turns of the
 * thread pool.
 */
import { closeSync, openSync, readFileSync, readSync } from "node:fs";

/** Reads a file from its beginning. */
export type ReadFile = (path: string) => string;

export const readOnce: ReadFile = (path) => readFileSync(path, "utf8");

/** For how many sandboxes files are kept open; each has about eight. */
const MAX_SANDBOXES = 32;
const MAX_BYTES = 4096;

/**
 * Keeps the files of the sandboxes that were asked about last open, because to open one takes
 * several times as long as to read it. An open file never becomes that of another sandbox or
 * process, even if its path does.
 */
export class KernelFiles {
  /** By sandbox and path; the sandbox that was asked about last is the last one. */
  readonly #open = new Map<string, Map<string, number>>();
  readonly #buffer = Buffer.alloc(MAX_BYTES);

  readerFor(id: string): ReadFile {
    return (path) => this.#read(id, path);
  }

  /** Keeps files open only if some of the sandbox's already are. */
  readerIfOpen(id: string): ReadFile {
    return this.#open.has(id) ? this.readerFor(id) : readOnce;
  }

  forget(id: string): void {
    for (const file of this.#open.get(id)?.values() ?? []) closeSync(file);
    this.#open.delete(id);
  }

  #read(id: string, path: string): string {
    const files = this.#filesOf(id);
    let file = files.get(path);
    if (file === undefined) {
      file = openSync(path, "r");
      files.set(path, file);
    }
    const size = readSync(file, this.#buffer, 0, MAX_BYTES, 0);
    return size < MAX_BYTES ? this.#buffer.toString("latin1", 0, size) : readOnce(path);
  }

  #filesOf(id: string): Map<string, number> {
    const files = this.#open.get(id) ?? new Map<string, number>();
    this.#open.delete(id);
    this.#open.set(id, files);
    const [oldest] = this.#open.keys();
    if (this.#open.size > MAX_SANDBOXES && oldest !== undefined) this.forget(oldest);
    return files;
  }
}
