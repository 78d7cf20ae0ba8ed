/** Tracks the disk space of each command's output in a session, oldest first. */
import { stat } from "node:fs/promises";
import { join } from "node:path";
import { isJournalId } from "./journal-id.ts";
import { isMissing } from "./journal-failure.ts";
import { namesIn } from "./segment-listing.ts";
import { BLOCK_BYTES } from "./segment-row.ts";

interface FoundOutput {
  readonly execId: string;
  readonly madeAtMs: number;
  readonly bytes: number;
}

export class SessionAccount {
  #bytesByExec = new Map<string, number>();
  #totalBytes = 0;
  #isComplete = false;

  get totalBytes(): number {
    return this.#totalBytes;
  }

  /** Whether output left by earlier processes is counted too. */
  get isComplete(): boolean {
    return this.#isComplete;
  }

  has(execId: string): boolean {
    return this.#bytesByExec.has(execId);
  }

  /** Ordered by first output. */
  execIds(): Iterable<string> {
    return this.#bytesByExec.keys();
  }

  /** Sets the size of a command's segments; their directory is added. */
  set(execId: string, segmentBytes: number): void {
    this.#put(execId, segmentBytes + BLOCK_BYTES);
  }

  change(execId: string, bytes: number): void {
    this.#put(execId, (this.#bytesByExec.get(execId) ?? BLOCK_BYTES) + bytes);
  }

  delete(execId: string): void {
    this.#put(execId, 0);
    this.#bytesByExec.delete(execId);
  }

  /**
   * Counts the output on disk. Commands that were already counted keep their size, but get their
   * place in the order.
   */
  async scan(directory: string): Promise<void> {
    const found: FoundOutput[] = [];
    for (const execId of await namesIn(directory)) {
      const output = isJournalId(execId) ? await measure(directory, execId) : undefined;
      if (output !== undefined) found.push(output);
    }
    found.sort((a, b) => a.madeAtMs - b.madeAtMs);
    const younger = this.#bytesByExec;
    this.#bytesByExec = new Map();
    this.#totalBytes = 0;
    for (const { execId, bytes } of found) this.#put(execId, bytes);
    for (const [execId, bytes] of younger) this.#put(execId, bytes);
    this.#isComplete = true;
  }

  #put(execId: string, bytes: number): void {
    this.#totalBytes += bytes - (this.#bytesByExec.get(execId) ?? 0);
    this.#bytesByExec.set(execId, bytes);
  }
}

/** Undefined if it was removed meanwhile. */
async function measure(directory: string, execId: string): Promise<FoundOutput | undefined> {
  const path = join(directory, execId);
  try {
    const { birthtimeMs, mtimeMs } = await stat(path);
    let bytes = BLOCK_BYTES;
    for (const name of await namesIn(path)) {
      bytes += (await stat(join(path, name))).size + BLOCK_BYTES;
    }
    // Not every file system records creation times.
    return { execId, madeAtMs: birthtimeMs > 0 ? birthtimeMs : mtimeMs, bytes };
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}
