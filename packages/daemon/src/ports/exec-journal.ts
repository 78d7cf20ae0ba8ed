/** The port through which the core keeps command output on the host, beyond the sandbox's life. */
import type { OutputStream } from "@sandkasten/protocol";

export interface JournalChunk {
  readonly stream: OutputStream;
  readonly seq: number;
  /** Offset of the first byte in the merged output. */
  readonly offset: number;
  readonly timestampMs: number;
  /** Owned by the reader; with memory given to `read`, valid until that is used again. */
  readonly bytes: Uint8Array;
}

export interface JournalPage {
  readonly chunks: readonly JournalChunk[];
  /** Where the next page begins; the cursor itself when there is nothing more. */
  readonly nextOffset: number;
  /** Bytes after the cursor that have been discarded. */
  readonly skippedBytes: number;
}

/** The output of one command while it is being written. */
export interface JournalWriter {
  /** Bytes of output so far, including dropped ones. */
  readonly endOffset: number;
  readonly stdoutBytes: number;
  readonly stderrBytes: number;
  /** Bytes dropped from the middle. */
  readonly droppedBytes: number;
  /**
   * Once it resolves, the bytes survive a kill -9. The first half of the limit is kept for good;
   * the rest holds the newest output. Rejects with STORAGE_FULL when the disk is full.
   */
  append(stream: OutputStream, bytes: Uint8Array, timestampMs: number): Promise<void>;
  /** Counts bytes that are not written because they were lost. */
  skip(bytes: number): Promise<void>;
  close(): Promise<void>;
}

export interface ExecJournal {
  /**
   * Opens a command's output for appending; a record torn by a crash is cut off. `beforeDrop` is
   * awaited before bytes up to an offset are dropped, so readers can catch up. `fence` is the token
   * that serves the session; where daemons share the journal, a write with any other token has no
   * effect.
   */
  write(
    sessionId: string,
    execId: string,
    beforeDrop?: (upToOffset: number) => Promise<void>,
    fence?: number,
  ): Promise<JournalWriter>;
  /**
   * Reads the kept output from a cursor on, possibly starting inside a chunk; empty if there is
   * none yet. Bytes of the page may be placed into `memory`, which saves new memory for each page; the
   * page then ends between chunks rather than inside one.
   */
  read(
    sessionId: string,
    execId: string,
    offset: number,
    maxBytes: number,
    memory?: Buffer,
  ): Promise<JournalPage>;
  /** Removes all output of a session. */
  remove(sessionId: string): Promise<void>;
  /** The disk space that a session's output takes; 0 if it has none. */
  size(sessionId: string): Promise<number>;
  /** Sessions that have output in this journal. */
  sessions(): Promise<readonly string[]>;
}
