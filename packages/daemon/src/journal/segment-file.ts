/** The segment being written: an append is complete, or is rolled back. */
import * as fs from "node:fs";
import { promisify } from "node:util";

const open = promisify(fs.open);
const writev = promisify(fs.writev);

const { O_RDWR, O_APPEND, O_CREAT, O_TRUNC, O_NOFOLLOW } = fs.constants;
const REOPEN = O_RDWR | O_APPEND | O_NOFOLLOW;
const CREATE = REOPEN | O_CREAT | O_TRUNC;

/** Uses plain descriptors: a short output costs a few system calls and no event loop turn. */
export class SegmentFile {
  readonly #path: string;
  readonly #descriptor: number;
  #bytes: number;
  #torn = false;

  private constructor(path: string, descriptor: number, bytes: number) {
    this.#path = path;
    this.#descriptor = descriptor;
    this.#bytes = bytes;
  }

  /** Overwrites what a failed attempt may have left under this name. */
  static createNow(path: string): SegmentFile {
    return new SegmentFile(path, fs.openSync(path, CREATE, 0o600), 0);
  }

  static async create(path: string): Promise<SegmentFile> {
    return new SegmentFile(path, await open(path, CREATE, 0o600), 0);
  }

  /** Continues after that many valid bytes; anything beyond is truncated. */
  static reopen(path: string, bytes: number): SegmentFile {
    const file = new SegmentFile(path, fs.openSync(path, REOPEN), bytes);
    try {
      fs.ftruncateSync(file.#descriptor, bytes);
    } catch (error) {
      file.close();
      throw error;
    }
    return file;
  }

  /** Bytes that are completely written; 0 if the file does not count yet. */
  get bytes(): number {
    return this.#bytes;
  }

  appendNow(bytes: Uint8Array): void {
    this.#truncateTorn();
    try {
      for (let done = 0; done < bytes.length;) {
        done += fs.writeSync(this.#descriptor, bytes, done);
      }
    } catch (error) {
      this.#cutOff();
      throw error;
    }
    this.#bytes += bytes.length;
  }

  /** Does not copy the parts; they must not change until it is done. */
  async append(parts: readonly Uint8Array[]): Promise<void> {
    this.#truncateTorn();
    let added = 0;
    try {
      for (let rest = parts; rest.length > 0;) {
        const { bytesWritten } = await writev(this.#descriptor, rest);
        added += bytesWritten;
        rest = partsAfter(rest, bytesWritten);
      }
    } catch (error) {
      this.#cutOff();
      throw error;
    }
    this.#bytes += added;
  }

  readNow(target: Buffer, position: number): number {
    return fs.readSync(this.#descriptor, target, 0, target.length, position);
  }

  close(): void {
    fs.closeSync(this.#descriptor);
  }

  /** Removes a file that failed at its first bytes. */
  discard(): void {
    this.close();
    try {
      fs.rmSync(this.#path, { force: true });
    } catch {
      // The write's failure is reported; `create` and recovery can handle a leftover file.
    }
  }

  #cutOff(): void {
    this.#torn = true;
    try {
      this.#truncateTorn();
    } catch {
      // The failure that tore the record is reported; the next append retries and reports this one.
    }
  }

  /** Truncates a torn record, since appending after it would make everything that follows unreadable. */
  #truncateTorn(): void {
    if (!this.#torn) return;
    fs.ftruncateSync(this.#descriptor, this.#bytes);
    this.#torn = false;
  }
}

function partsAfter(parts: readonly Uint8Array[], bytes: number): readonly Uint8Array[] {
  let left = bytes;
  return parts.flatMap((part) => {
    const done = Math.min(left, part.length);
    left -= done;
    return done === part.length ? [] : [part.subarray(done)];
  });
}
