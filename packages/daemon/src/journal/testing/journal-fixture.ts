/** A journal in a temporary directory, and helpers for its tests. */
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ExecJournal, JournalChunk } from "../../ports/exec-journal.ts";
import { FileExecJournal } from "../file-exec-journal.ts";
import type { FileExecJournalOptions } from "../file-exec-journal.ts";

export const KIB = 1024;
export const MIB = 1024 * KIB;

/** The largest record that fits in a segment. */
export const RECORD_ROOM = 64 * KIB - 56 - 24;

export interface Warning {
  readonly fields: Readonly<Record<string, unknown>>;
  readonly message: string;
}

export class JournalFixture implements AsyncDisposable {
  readonly directory: string;
  readonly warnings: Warning[] = [];

  private constructor(directory: string) {
    this.directory = directory;
  }

  static async create(): Promise<JournalFixture> {
    return new JournalFixture(await mkdtemp(join(tmpdir(), "sandkasten-journal-")));
  }

  /** A second journal on the same directory knows only what is on disk, like another process. */
  async open(options: Partial<FileExecJournalOptions> = {}): Promise<FileExecJournal> {
    const keep = (): undefined => undefined;
    return await FileExecJournal.open({
      directory: this.directory,
      maxBytesPerExec: MIB,
      maxBytesPerSession: 64 * MIB,
      log: {
        info: keep,
        warn: (fields, message) => this.warnings.push({ fields, message }),
        error: keep,
      },
      ...options,
    });
  }

  path(...names: readonly string[]): string {
    return join(this.directory, ...names);
  }

  /** The files of a command's output, in their order. */
  async segments(sessionId: string, execId: string): Promise<readonly string[]> {
    const names = await readdir(this.path(sessionId, execId));
    return names.sort().map((name) => this.path(sessionId, execId, name));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.directory, { recursive: true, force: true });
  }
}

export interface WholeOutput {
  readonly chunks: readonly JournalChunk[];
  readonly bytes: Buffer;
  readonly skippedBytes: number;
  readonly pages: number;
  readonly nextOffset: number;
}

/** Reads page by page until there is nothing more. */
export async function readAll(
  journal: ExecJournal,
  sessionId: string,
  execId: string,
  { offset = 0, maxBytes = 64 * KIB }: { offset?: number; maxBytes?: number } = {},
): Promise<WholeOutput> {
  const chunks: JournalChunk[] = [];
  let skippedBytes = 0;
  let cursor = offset;
  for (let pages = 0; ; pages += 1) {
    const page = await journal.read(sessionId, execId, cursor, maxBytes);
    if (page.nextOffset === cursor) {
      const bytes = Buffer.concat(chunks.map((chunk) => chunk.bytes));
      return { chunks, bytes, skippedBytes, pages, nextOffset: cursor };
    }
    chunks.push(...page.chunks);
    skippedBytes += page.skippedBytes;
    cursor = page.nextOffset;
  }
}

/** Bytes that encode their own position. */
export function patternAt(offset: number, length: number): Buffer {
  const bytes = Buffer.allocUnsafe(length);
  for (let index = 0; index < length; index += 1) bytes[index] = patternByte(offset + index);
  return bytes;
}

function patternByte(offset: number): number {
  return (offset ^ (offset >>> 8) ^ ((offset >>> 16) * 31)) & 0xff;
}
