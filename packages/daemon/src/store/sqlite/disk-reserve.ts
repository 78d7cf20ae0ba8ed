/**
 * Disk space reserved for what must be written when the disk is full: a file of that size, deleted
 * on demand.
 *
 * SECURITY: a full disk must not prevent sessions from being ended (threat: a full data disk).
 * Guarded by disk-full.serial.test.ts.
 */
import { randomFillSync } from "node:crypto";
import { closeSync, lstatSync, openSync, rmSync, statfsSync, writeSync } from "node:fs";
import { dirname } from "node:path";
import { isOutOfSpace } from "./store-failure.ts";
import { systemCode } from "../../system-errors.ts";

const PIECE_BYTES = 65_536;

export class DiskReserve {
  readonly #path: string;
  readonly #bytes: number;
  #held: boolean;

  constructor(path: string, bytes: number) {
    this.#path = path;
    this.#bytes = bytes;
    this.#held = this.#isWhole();
  }

  /** Reserves the space unless already reserved; false if there is not enough. */
  hold(): boolean {
    if (this.#held) return true;
    // Checked first, to avoid filling the disk only to find it full.
    const { bavail, bsize } = statfsSync(dirname(this.#path));
    if (bavail * bsize < this.#bytes) return false;
    rmSync(this.#path, { force: true });
    try {
      this.#fill(this.#path, this.#bytes);
    } catch (error) {
      rmSync(this.#path, { force: true });
      if (isOutOfSpace(error)) return false;
      throw error;
    }
    this.#held = true;
    return true;
  }

  giveUp(): void {
    rmSync(this.#path, { force: true });
    this.#held = false;
  }

  /** Whether not even a small write succeeds, determined by trying: quotas are not visible otherwise. */
  isDiskFull(): boolean {
    const path = `${this.#path}.probe`;
    rmSync(path, { force: true });
    try {
      this.#fill(path, PIECE_BYTES);
      return false;
    } catch (error) {
      if (isOutOfSpace(error)) return true;
      throw error;
    } finally {
      rmSync(path, { force: true });
    }
  }

  /** Random bytes, since file systems cannot compress them. */
  #fill(path: string, bytes: number): void {
    const piece = Buffer.allocUnsafe(PIECE_BYTES);
    const file = openSync(path, "wx", 0o600);
    try {
      for (let written = 0; written < bytes;) {
        randomFillSync(piece);
        written += writeSync(file, piece, 0, Math.min(PIECE_BYTES, bytes - written));
      }
    } finally {
      closeSync(file);
    }
  }

  #isWhole(): boolean {
    try {
      const found = lstatSync(this.#path);
      return found.isFile() && found.size === this.#bytes && found.blocks * 512 >= this.#bytes;
    } catch (error) {
      if (systemCode(error) === "ENOENT") return false;
      throw error;
    }
  }
}
