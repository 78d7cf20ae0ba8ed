/** How much of the disk the output of each command of a session takes, the oldest first. */
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

  /** Whether what earlier processes left is counted, too. */
  get isComplete(): boolean {
    return this.#isComplete;
  }

  has(execId: string): boolean {
    return this.#bytesByExec.has(execId);
  }

  /** In the order of their first output. */
  execIds(): Iterable<string> {
    return this.#bytesByExec.keys();
  }

  /** What the segments of a command take; their directory is added. */
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

  /** Counts what is on the disk. What was counted already stays as it is, but finds its place in the order. */
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

/** Undefined when it was removed meanwhile. */
async function measure(directory: string, execId: string): Promise<FoundOutput | undefined> {
  const path = join(directory, execId);
  try {
    const { birthtimeMs, mtimeMs } = await stat(path);
    let bytes = BLOCK_BYTES;
    for (const name of await namesIn(path)) {
      bytes += (await stat(join(path, name))).size + BLOCK_BYTES;
    }
    // Not every filesystem knows when something was made.
    return { execId, madeAtMs: birthtimeMs > 0 ? birthtimeMs : mtimeMs, bytes };
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}
