/** Writes a command's output to the journal, and resumes after periods in which that was not possible. */
import { setTimeout as sleep } from "node:timers/promises";
import { SandboxError } from "@sandkasten/protocol";
import type { OutputChunk } from "../ports/channel.ts";
import type { Clock } from "../ports/clock.ts";
import type { JournalWriter } from "../ports/exec-journal.ts";
import type { Log } from "../ports/log.ts";

/**
 * How long a full disk blocks the command. Until then nothing is lost: the sandbox keeps unread
 * output, and a command that prints more is paused. After that, output is dropped, but the command
 * continues.
 */
const PATIENCE_MS = 10_000;
const RETRY_MS = 200;

export interface OutputWriterParts {
  readonly clock: Clock;
  readonly log: Log;
}

interface Outage {
  readonly sinceMs: number;
  retryAtMs: number;
  isLossy: boolean;
}

export class OutputWriter {
  readonly #execId: string;
  readonly #open: () => Promise<JournalWriter>;
  readonly #parts: OutputWriterParts;
  /** The output is no longer wanted, or another daemon will take it. */
  #isStopped = false;
  /** Ends the pause between two tries. */
  #pause: AbortController | undefined;
  #writer: JournalWriter | undefined;
  #outage: Outage | undefined;
  /** The end of the output seen so far. */
  #seenEnd = 0;

  constructor(execId: string, open: () => Promise<JournalWriter>, parts: OutputWriterParts) {
    this.#execId = execId;
    this.#open = open;
    this.#parts = parts;
  }

  /** Whether there was any output. */
  get hasBegun(): boolean {
    return this.#writer !== undefined || this.#seenEnd > 0;
  }

  /** The totals of written and lost output. */
  get counts(): Pick<JournalWriter, "stdoutBytes" | "stderrBytes" | "droppedBytes"> {
    const { stdoutBytes = 0, stderrBytes = 0, droppedBytes = 0 } = this.#writer ?? {};
    return { stdoutBytes, stderrBytes, droppedBytes: droppedBytes + this.#missingBytes };
  }

  async open(): Promise<JournalWriter> {
    this.#writer ??= await this.#open();
    return this.#writer;
  }

  /** Resolves when the chunk is stored or dropped. */
  async write(chunk: OutputChunk): Promise<void> {
    this.#seenEnd = Math.max(this.#seenEnd, chunk.offset + chunk.bytes.length);
    if (this.#outage?.isLossy === true && this.#now() < this.#outage.retryAtMs) return;
    while (!(await this.#tryToWrite(chunk)) && !this.#isStopped) {
      if (this.#outage?.isLossy === true) return;
      this.#pause = new AbortController();
      await sleep(RETRY_MS, undefined, { signal: this.#pause.signal }).catch(() => undefined);
    }
  }

  /** Stops waiting for disk space. */
  stop(): void {
    this.#isStopped = true;
    this.#pause?.abort();
  }

  /** Records what is missing at the end. */
  async close(): Promise<void> {
    try {
      if (this.#missingBytes > 0) await (await this.open()).skip(this.#missingBytes);
      await this.#writer?.close();
    } catch (error) {
      this.#parts.log.error(
        { err: error, exec: this.#execId },
        "cannot complete a command's stored output",
      );
    }
  }

  /** Leaves the journal for another daemon to continue. */
  async release(): Promise<void> {
    await this.#writer?.close();
  }

  get #missingBytes(): number {
    return Math.max(0, this.#seenEnd - (this.#writer?.endOffset ?? 0));
  }

  async #tryToWrite(chunk: OutputChunk): Promise<boolean> {
    try {
      await writeChunk(await this.open(), chunk, this.#parts.clock.nowMs());
    } catch (error) {
      this.#noteOutage(error);
      return false;
    }
    if (this.#outage !== undefined)
      this.#parts.log.info({ exec: this.#execId }, "storing a command's output again");
    this.#outage = undefined;
    return true;
  }

  #noteOutage(error: unknown): void {
    const nowMs = this.#now();
    this.#outage ??= { sinceMs: nowMs, retryAtMs: 0, isLossy: false };
    this.#outage.retryAtMs = nowMs + RETRY_MS;
    const isPatient = isFullDisk(error) && nowMs - this.#outage.sinceMs < PATIENCE_MS;
    if (isPatient || this.#outage.isLossy) return;
    this.#outage.isLossy = true;
    this.#parts.log.error({ err: error, exec: this.#execId }, "cannot store a command's output");
  }

  #now(): number {
    return this.#parts.clock.monotonicMs();
  }
}

/** If bytes before the chunk were lost, the journal gets a gap. Part of the chunk may already be stored. */
async function writeChunk(
  writer: JournalWriter,
  { stream, offset, bytes }: OutputChunk,
  nowMs: number,
): Promise<void> {
  if (offset > writer.endOffset) await writer.skip(offset - writer.endOffset);
  await writer.append(stream, bytes.subarray(writer.endOffset - offset), nowMs);
}

function isFullDisk(error: unknown): boolean {
  return error instanceof SandboxError && error.code === "STORAGE_FULL";
}
