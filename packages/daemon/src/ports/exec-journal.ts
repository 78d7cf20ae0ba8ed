/** The port through which the core keeps what commands print, on the host, beyond the sandbox's life. */
import type { OutputStream } from "@sandkasten/protocol";

export interface JournalChunk {
  readonly stream: OutputStream;
  readonly seq: number;
  /** Offset of the first byte in the merged output. */
  readonly offset: number;
  readonly timestampMs: number;
  /** The reader's own. */
  readonly bytes: Uint8Array;
}

export interface JournalPage {
  readonly chunks: readonly JournalChunk[];
  /** Where the next page begins; the cursor itself when there is nothing more. */
  readonly nextOffset: number;
  /** Bytes from the cursor on that are not kept any more. */
  readonly skippedBytes: number;
}

/** The output of one command, being written. */
export interface JournalWriter {
  /** Bytes of output so far, the dropped ones included. */
  readonly endOffset: number;
  readonly stdoutBytes: number;
  readonly stderrBytes: number;
  /** Bytes that are gone from the middle. */
  readonly droppedBytes: number;
  /**
   * When it resolves, the bytes survive a kill -9. The first half of what may be kept stays for
   * ever, of the rest the newest. Rejects with STORAGE_FULL when the disk is.
   */
  append(stream: OutputStream, bytes: Uint8Array, timestampMs: number): Promise<void>;
  /** Counts bytes that are not written, because they are lost. */
  skip(bytes: number): Promise<void>;
  close(): Promise<void>;
}

export interface ExecJournal {
  /**
   * Opens a command's output for writing, behind what is there already; a record torn by a crash is
   * cut off. `beforeDrop` is awaited before bytes up to an offset go, so that readers may catch up.
   * `fence` is the token with which the session is served; where daemons share the journal, nothing is
   * written with another one.
   */
  write(
    sessionId: string,
    execId: string,
    beforeDrop?: (upToOffset: number) => Promise<void>,
    fence?: number,
  ): Promise<JournalWriter>;
  /** What is kept from a cursor on, whole or in part of a chunk; empty when nothing is (yet). */
  read(sessionId: string, execId: string, offset: number, maxBytes: number): Promise<JournalPage>;
  /** Removes all output of a session. */
  remove(sessionId: string): Promise<void>;
  /** What the output of a session takes of the disk; 0 when it has none. */
  size(sessionId: string): Promise<number>;
  /** Sessions that have output here. */
  sessions(): Promise<readonly string[]>;
}
