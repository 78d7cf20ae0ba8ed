/** Writes one command's output: counts, splits into segments, and waits for readers before dropping bytes. */
import { SandboxError } from "@sandkasten/protocol";
import type { OutputStream } from "@sandkasten/protocol";
import type { JournalWriter } from "../ports/exec-journal.ts";
import { journalFailure } from "./journal-failure.ts";
import type { OutputView } from "./output-view.ts";
import type { OutputCounts } from "./recover-segments.ts";
import { MAX_RECORD_BYTES } from "./segment-format.ts";
import { SegmentRow } from "./segment-row.ts";
import type { NewRecord, SegmentRowOptions } from "./segment-row.ts";

export interface FileJournalWriterOptions extends SegmentRowOptions {
  readonly beforeDrop: ((upToOffset: number) => Promise<void>) | undefined;
  readonly onClose: () => void;
}

/**
 * After a rejected append, `endOffset` says how much of the chunk was kept: a chunk that spans two
 * segments may be kept in part. Once the session's output is removed, `append` and `skip` reject
 * with CANCELLED.
 */
export class FileJournalWriter implements JournalWriter {
  readonly #options: FileJournalWriterOptions;
  readonly #row: SegmentRow;
  readonly #removal = Promise.withResolvers<void>();
  #state: "open" | "closed" | "removed" = "open";
  #inFlight: Promise<void> | undefined;
  #gapPending = false;

  #endOffset = 0;
  #nextSeq = 0;
  #stdoutBytes = 0;
  #stderrBytes = 0;
  #skippedBytes = 0;

  constructor(options: FileJournalWriterOptions) {
    this.#options = options;
    this.#row = new SegmentRow(options);
  }

  get endOffset(): number {
    return this.#endOffset;
  }

  get stdoutBytes(): number {
    return this.#stdoutBytes;
  }

  get stderrBytes(): number {
    return this.#stderrBytes;
  }

  get droppedBytes(): number {
    return this.#skippedBytes + this.#row.deletedBytes;
  }

  /** The disk space of the output. */
  get diskBytes(): number {
    return this.#row.diskBytes;
  }

  /** Continues after the output on the disk. */
  async recover(): Promise<void> {
    const counts = await this.#untilRemoved(this.#row.recover());
    if (counts === undefined) return;
    this.#endOffset = counts.firstOffset;
    this.#nextSeq = counts.firstSeq;
    this.#stdoutBytes = counts.stdoutBytes;
    this.#stderrBytes = counts.stderrBytes;
    this.#skippedBytes = counts.skippedBytes;
  }

  async append(stream: OutputStream, bytes: Uint8Array, timestampMs: number): Promise<void> {
    this.requireOpen();
    if (!Number.isFinite(timestampMs)) {
      throw new SandboxError("INVALID_REQUEST", `Invalid output timestamp ${timestampMs}.`);
    }
    try {
      for (let rest = bytes; rest.length > 0;) {
        if (this.#row.room <= 0) this.#row.finish();
        if (this.#row.dropUpTo !== undefined) await this.#makeRoom();
        const length = Math.min(rest.length, this.#row.room, MAX_RECORD_BYTES);
        await this.#write({ stream, bytes: rest.subarray(0, length), timestampMs });
        rest = rest.subarray(length);
      }
    } catch (error) {
      throw journalFailure(error, "writing output");
    }
  }

  async skip(bytes: number): Promise<void> {
    this.requireOpen();
    if (!Number.isSafeInteger(bytes) || bytes < 0) {
      throw new SandboxError("INVALID_REQUEST", `Cannot skip ${bytes} bytes of output.`);
    }
    if (bytes === 0) return;
    this.#row.finish();
    this.#endOffset += bytes;
    this.#skippedBytes += bytes;
    this.#gapPending = true;
    await this.#noteGap();
  }

  async close(): Promise<void> {
    if (this.#state !== "open") return;
    try {
      if (this.#gapPending) await this.#noteGap();
    } finally {
      if (this.#isOpen()) {
        this.#state = "closed";
        this.#row.finish();
        this.#options.onClose();
      }
    }
  }

  /** Closes the files because they are about to be removed; pending operations reject. */
  async abandon(): Promise<void> {
    if (this.#state !== "open") return;
    this.#state = "removed";
    this.#removal.resolve();
    await this.#inFlight;
    this.#row.finish();
  }

  requireOpen(): void {
    if (this.#state === "removed") {
      throw new SandboxError(
        "CANCELLED",
        "The session's output was removed while this command was writing to it.",
      );
    }
    if (this.#state === "closed") {
      throw new SandboxError("CONFLICT", "The output of this command is already closed.");
    }
  }

  /** What readers may currently see. */
  view(): OutputView {
    return {
      directory: this.#options.directory,
      segments: this.#row.view(),
      endOffset: this.#endOffset,
      readNow: (first, target, position) => this.#row.readNow(first, target, position),
    };
  }

  async #write(record: NewRecord): Promise<void> {
    const { length } = record.bytes;
    if (this.#options.shortWrites.takes(length)) {
      this.#row.appendNow(this.#counts(), record);
    } else {
      await this.#untilRemoved(this.#row.append(this.#counts(), record));
    }
    this.#gapPending = false;
    this.#nextSeq += 1;
    this.#endOffset += length;
    if (record.stream === "stdout") this.#stdoutBytes += length;
    else this.#stderrBytes += length;
  }

  /** Remembers the gap if the disk is full: the next segment records it too. */
  async #noteGap(): Promise<void> {
    try {
      await this.#makeRoom();
      this.#row.begin(this.#counts());
      this.#gapPending = false;
    } catch (error) {
      const failure = journalFailure(error, "recording lost output");
      if (failure.code !== "STORAGE_FULL") throw failure;
      const { directory, log } = this.#options;
      log?.warn({ directory, err: failure }, "cannot record lost output yet: the disk is full");
    }
  }

  async #makeRoom(): Promise<void> {
    const { beforeDrop } = this.#options;
    let upTo = this.#row.dropUpTo;
    while (upTo !== undefined) {
      if (beforeDrop !== undefined) {
        await Promise.race([beforeDrop(upTo), this.#removal.promise]);
        this.requireOpen();
      }
      await this.#untilRemoved(this.#row.drop());
      upTo = this.#row.dropUpTo;
    }
  }

  /** Lets `abandon` wait for file operations, and stops after them if the files are being removed. */
  async #untilRemoved<T>(work: Promise<T>): Promise<T> {
    this.#inFlight = work.then(
      () => undefined,
      () => undefined,
    );
    try {
      return await work;
    } finally {
      this.#inFlight = undefined;
      this.requireOpen();
    }
  }

  #isOpen(): boolean {
    return this.#state === "open";
  }

  #counts(): OutputCounts {
    return {
      firstOffset: this.#endOffset,
      firstSeq: this.#nextSeq,
      stdoutBytes: this.#stdoutBytes,
      stderrBytes: this.#stderrBytes,
      skippedBytes: this.#skippedBytes,
    };
  }
}
