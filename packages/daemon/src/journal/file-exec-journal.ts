/**
 * Keeps command output in files: `<directory>/<session>/<command>/<segments>`.
 *
 * Output survives a kill of the daemon, but not a power failure: it is in the kernel's page cache when
 * an append resolves. Only one process at a time may open the directory.
 */
import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { SandboxError } from "@sandkasten/protocol";
import type { ExecJournal, JournalPage, JournalWriter } from "../ports/exec-journal.ts";
import type { Log } from "../ports/log.ts";
import { isMissing, journalFailure } from "./journal-failure.ts";
import { isJournalId, requireJournalId } from "./journal-id.ts";
import type { OutputView } from "./output-view.ts";
import { PageReader } from "./page-reader.ts";
import type { PageRequest } from "./page-reader.ts";
import { listSegments, namesIn } from "./segment-listing.ts";
import { MAX_SEGMENTS } from "./segment-row.ts";
import { SessionAccount } from "./session-account.ts";
import { SessionJournals } from "./session-journals.ts";
import { ShortWrites } from "./short-writes.ts";

export interface FileExecJournalOptions {
  readonly directory: string;
  /** Disk space for one command's output; at least 1 MiB is used. */
  readonly maxBytesPerExec: number;
  /**
   * Disk space for all output of a session; when a command begins, the oldest output beyond that is
   * removed. Output of running commands is never deleted, so they may exceed it.
   */
  readonly maxBytesPerSession: number;
  readonly log?: Log;
}

const MIN_SEGMENT_BYTES = 64 * 1024;
/** How often reading a page restarts because segments were dropped meanwhile. */
const MAX_ATTEMPTS = 100;

export class FileExecJournal implements ExecJournal {
  readonly #options: FileExecJournalOptions;
  readonly #segmentBytes: number;
  readonly #shortWrites = new ShortWrites(() => performance.now());
  readonly #pages: PageReader;
  readonly #sessions = new Map<string, SessionJournals>();
  readonly #removals = new Map<string, Promise<void>>();

  private constructor(options: FileExecJournalOptions) {
    this.#options = options;
    this.#segmentBytes = Math.max(
      MIN_SEGMENT_BYTES,
      Math.floor(options.maxBytesPerExec / MAX_SEGMENTS),
    );
    this.#pages = new PageReader(options.log);
  }

  static async open(options: FileExecJournalOptions): Promise<FileExecJournal> {
    try {
      await mkdir(options.directory, { recursive: true, mode: 0o700 });
    } catch (error) {
      throw journalFailure(error, "creating its directory");
    }
    return new FileExecJournal(options);
  }

  /** Rejects with CONFLICT while the command has another open writer. */
  async write(
    sessionId: string,
    execId: string,
    beforeDrop?: (upToOffset: number) => Promise<void>,
  ): Promise<JournalWriter> {
    requireJournalId("session", sessionId);
    requireJournalId("command", execId);
    try {
      while (this.#removals.has(sessionId)) await this.#removals.get(sessionId);
      return await this.#session(sessionId).openWriter(execId, beforeDrop);
    } catch (error) {
      throw journalFailure(error, "opening output for writing");
    }
  }

  async read(
    sessionId: string,
    execId: string,
    offset: number,
    maxBytes: number,
    memory?: Buffer,
  ): Promise<JournalPage> {
    requireJournalId("session", sessionId);
    requireJournalId("command", execId);
    if (!Number.isSafeInteger(offset) || offset < 0 || !(maxBytes >= 1)) {
      throw new SandboxError(
        "INVALID_REQUEST",
        `Output cannot be read from ${offset}, ${maxBytes} bytes at a time. A cursor must be at least 0, and a page at least one byte.`,
      );
    }
    try {
      return await this.#read(sessionId, execId, {
        offset,
        maxBytes: Math.floor(maxBytes),
        memory,
      });
    } catch (error) {
      throw journalFailure(error, "reading output");
    }
  }

  /** Open writers then reject with CANCELLED. */
  async remove(sessionId: string): Promise<void> {
    requireJournalId("session", sessionId);
    let removal = this.#removals.get(sessionId);
    if (removal === undefined) {
      removal = this.#remove(sessionId).finally(() => this.#removals.delete(sessionId));
      this.#removals.set(sessionId, removal);
    }
    try {
      await removal;
    } catch (error) {
      throw journalFailure(error, "removing a session's output");
    }
  }

  async size(sessionId: string): Promise<number> {
    requireJournalId("session", sessionId);
    try {
      const account = new SessionAccount();
      await account.scan(join(this.#options.directory, sessionId));
      return account.totalBytes;
    } catch (error) {
      throw journalFailure(error, "measuring a session's output");
    }
  }

  async sessions(): Promise<readonly string[]> {
    try {
      return (await namesIn(this.#options.directory)).filter(isJournalId);
    } catch (error) {
      throw journalFailure(error, "listing sessions");
    }
  }

  #session(sessionId: string): SessionJournals {
    let session = this.#sessions.get(sessionId);
    if (session === undefined) {
      session = new SessionJournals({
        directory: join(this.#options.directory, sessionId),
        segmentBytes: this.#segmentBytes,
        maxBytes: this.#options.maxBytesPerSession,
        shortWrites: this.#shortWrites,
        onDelete: (execId) => this.#pages.forget(`${sessionId}/${execId}/`),
        log: this.#options.log,
      });
      this.#sessions.set(sessionId, session);
    }
    return session;
  }

  async #read(sessionId: string, execId: string, wanted: PageRequest): Promise<JournalPage> {
    for (let attempt = 1; ; attempt += 1) {
      const view = await this.#view(sessionId, execId);
      if (view.endOffset !== undefined && wanted.offset >= view.endOffset) {
        return { chunks: [], nextOffset: wanted.offset, skippedBytes: 0 };
      }
      try {
        return await this.#pages.read(`${sessionId}/${execId}`, view, wanted);
      } catch (error) {
        if (!isMissing(error) || attempt === MAX_ATTEMPTS) throw error;
      }
    }
  }

  async #view(sessionId: string, execId: string): Promise<OutputView> {
    const known = this.#sessions.get(sessionId)?.view(execId);
    if (known !== undefined) return known;
    const directory = join(this.#options.directory, sessionId, execId);
    return { directory, segments: (await listSegments(directory)).map((first) => ({ first })) };
  }

  async #remove(sessionId: string): Promise<void> {
    const session = this.#sessions.get(sessionId);
    this.#sessions.delete(sessionId);
    await session?.abandon();
    await rm(join(this.#options.directory, sessionId), { recursive: true, force: true });
    this.#pages.forget(`${sessionId}/`);
  }
}
