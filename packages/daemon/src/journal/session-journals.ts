/** The output of all commands of one session: its writers, and how much of it is kept. */
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { SandboxError } from "@sandkasten/protocol";
import type { Log } from "../ports/log.ts";
import { FileJournalWriter } from "./file-journal-writer.ts";
import type { OutputView } from "./output-view.ts";
import { SessionAccount } from "./session-account.ts";
import type { ShortWrites } from "./short-writes.ts";

export interface SessionJournalsOptions {
  readonly directory: string;
  readonly segmentBytes: number;
  readonly maxBytes: number;
  readonly shortWrites: ShortWrites;
  /** Called when a command's output was deleted to make room. */
  readonly onDelete: (execId: string) => void;
  readonly log: Log | undefined;
}

export class SessionJournals {
  readonly #options: SessionJournalsOptions;
  readonly #account = new SessionAccount();
  readonly #writers = new Map<string, FileJournalWriter>();
  /** Commands whose writer has read the existing output from disk. */
  readonly #ready = new Set<string>();
  readonly #deletions = new Map<string, Promise<void>>();
  #trimming: Promise<void> | undefined;
  #isRemoved = false;

  constructor(options: SessionJournalsOptions) {
    this.#options = options;
  }

  async openWriter(
    execId: string,
    beforeDrop: ((upToOffset: number) => Promise<void>) | undefined,
  ): Promise<FileJournalWriter> {
    if (this.#writers.has(execId)) {
      throw new SandboxError(
        "CONFLICT",
        `The output of command ${execId} is already being written.`,
      );
    }
    const writer = this.#newWriter(execId, beforeDrop);
    this.#writers.set(execId, writer);
    try {
      await this.#goOn(execId, writer);
    } catch (error) {
      this.#forgetWriter(execId);
      throw error;
    }
    this.#ready.add(execId);
    this.#startTrimming();
    return writer;
  }

  /** What a command's writer knows about its output; undefined if there is no writer. */
  view(execId: string): OutputView | undefined {
    return this.#ready.has(execId) ? this.#writers.get(execId)?.view() : undefined;
  }

  /** Stops using the directory. */
  async abandon(): Promise<void> {
    this.#isRemoved = true;
    await Promise.all([...this.#writers.values()].map(async (writer) => await writer.abandon()));
    await this.#trimming;
  }

  #newWriter(
    execId: string,
    beforeDrop: ((upToOffset: number) => Promise<void>) | undefined,
  ): FileJournalWriter {
    const { directory, segmentBytes, shortWrites, log } = this.#options;
    return new FileJournalWriter({
      directory: join(directory, execId),
      segmentBytes,
      shortWrites,
      beforeDrop,
      onDiskBytes: (change) => this.#account.change(execId, change),
      onClose: () => this.#forgetWriter(execId),
      log,
    });
  }

  /** A command without output so far needs no disk access. */
  async #goOn(execId: string, writer: FileJournalWriter): Promise<void> {
    const deletion = this.#deletions.get(execId);
    if (deletion !== undefined) await deletion;
    writer.requireOpen();
    if (this.#account.isComplete && !this.#account.has(execId)) return;
    await writer.recover();
    if (writer.diskBytes > 0) this.#account.set(execId, writer.diskBytes);
  }

  #forgetWriter(execId: string): void {
    this.#writers.delete(execId);
    this.#ready.delete(execId);
  }

  #startTrimming(): void {
    if (this.#trimming !== undefined) return;
    if (this.#account.isComplete && this.#account.totalBytes <= this.#options.maxBytes) return;
    this.#trimming = this.#trim()
      .catch((error: unknown) => {
        const { directory, log } = this.#options;
        log?.warn({ directory, err: error }, "cannot count the output of a session");
      })
      .finally(() => (this.#trimming = undefined));
  }

  async #trim(): Promise<void> {
    const { directory, maxBytes } = this.#options;
    if (!this.#account.isComplete) await this.#account.scan(directory);
    for (const execId of this.#account.execIds()) {
      if (this.#account.totalBytes <= maxBytes || this.#isRemoved) return;
      if (!this.#writers.has(execId)) await this.#delete(execId);
    }
  }

  async #delete(execId: string): Promise<void> {
    const path = join(this.#options.directory, execId);
    const deletion = rm(path, { recursive: true, force: true }).then(
      () => {
        this.#account.delete(execId);
        this.#options.onDelete(execId);
      },
      (error: unknown) => {
        this.#options.log?.warn(
          { path, err: error },
          "cannot delete the oldest output of a session",
        );
      },
    );
    this.#deletions.set(execId, deletion);
    await deletion;
    this.#deletions.delete(execId);
  }
}
