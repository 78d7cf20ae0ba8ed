/** Writes one command's output to the database: counts, and makes room before the limit is reached. */
import { SandboxError } from "@sandkasten/protocol";
import type { OutputStream } from "@sandkasten/protocol";
import { sql } from "kysely";
import type { JournalWriter } from "../../ports/exec-journal.ts";
import { lostOwnership } from "../../ports/lost-ownership.ts";
import type { Database } from "../../store/postgres/database.ts";
import type { StoredRow } from "../../store/row-mapping.ts";

export interface PostgresJournalWriterOptions {
  readonly database: Database;
  readonly sessionId: string;
  readonly execId: string;
  readonly fence: number;
  readonly beforeDrop: ((upToOffset: number) => Promise<void>) | undefined;
  readonly maxBytes: number;
}

/** Longer output is split into several rows, so a page reads little more than it shows. */
const MAX_ROW_BYTES = 256 * 1024;
/** The share of the limit that is dropped at a time. */
const DROPPED_SHARE = 1 / 16;

export class PostgresJournalWriter implements JournalWriter {
  readonly #options: PostgresJournalWriterOptions;
  #endOffset: number;
  #stdoutBytes: number;
  #stderrBytes: number;
  #droppedBytes: number;
  #keptBytes: number;
  #isClosed = false;

  constructor(row: StoredRow, options: PostgresJournalWriterOptions) {
    this.#options = options;
    this.#endOffset = Number(row["end_offset"]);
    this.#stdoutBytes = Number(row["stdout_bytes"]);
    this.#stderrBytes = Number(row["stderr_bytes"]);
    this.#droppedBytes = Number(row["dropped_bytes"]);
    this.#keptBytes = Number(row["kept_bytes"]);
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
    return this.#droppedBytes;
  }

  async append(stream: OutputStream, bytes: Uint8Array, timestampMs: number): Promise<void> {
    this.#requireOpen();
    if (!Number.isFinite(timestampMs))
      throw new SandboxError("INVALID_REQUEST", `Invalid output timestamp ${timestampMs}.`);
    for (let rest = bytes; rest.length > 0;) {
      const part = rest.subarray(0, MAX_ROW_BYTES);
      if (this.#keptBytes + part.length > this.#options.maxBytes) await this.#makeRoom();
      await this.#append(stream, part, timestampMs);
      rest = rest.subarray(part.length);
    }
  }

  async skip(bytes: number): Promise<void> {
    this.#requireOpen();
    if (!Number.isSafeInteger(bytes) || bytes < 0)
      throw new SandboxError("INVALID_REQUEST", `Cannot skip ${bytes} bytes of output.`);
    if (bytes === 0) return;
    const { sessionId, execId, fence } = this.#options;
    await this.#require(
      sql`skip_output(${sessionId}, ${execId}, ${fence}, ${this.#endOffset}, ${bytes})`,
    );
    this.#endOffset += bytes;
    this.#droppedBytes += bytes;
  }

  close(): Promise<void> {
    this.#isClosed = true;
    return Promise.resolve();
  }

  async #append(stream: OutputStream, bytes: Uint8Array, timestampMs: number): Promise<void> {
    const { sessionId, execId, fence } = this.#options;
    await this.#require(
      sql`append_output(${sessionId}, ${execId}, ${fence}, ${this.#endOffset}, ${stream},
          ${timestampMs}, ${Buffer.from(bytes)}::bytea)`,
    );
    this.#endOffset += bytes.length;
    this.#keptBytes += bytes.length;
    if (stream === "stdout") this.#stdoutBytes += bytes.length;
    else this.#stderrBytes += bytes.length;
  }

  /** Keeps the first half; drops the oldest of the rest, once all followers have read it. */
  async #makeRoom(): Promise<void> {
    const { database, sessionId, execId, fence, maxBytes, beforeDrop } = this.#options;
    const [range] = await database.rows(
      "making room for output",
      sql`SELECT min(first_offset) AS first, max(first_offset + size) AS last FROM (
            SELECT first_offset, length(bytes) AS size,
              sum(length(bytes)) OVER (ORDER BY first_offset) - length(bytes) AS before
            FROM output_chunks WHERE session_id = ${sessionId} AND exec_id = ${execId}
              AND first_offset >= ${Math.floor(maxBytes / 2)}::bigint
          ) AS rest WHERE before < ${Math.ceil(maxBytes * DROPPED_SHARE)}`,
    );
    if (range?.["first"] === null || range?.["first"] === undefined) return;
    const upTo = Number(range["last"]);
    await beforeDrop?.(upTo);
    const [dropped] = await database.rows(
      "making room for output",
      sql`SELECT drop_output(${sessionId}, ${execId}, ${fence}, ${Number(range["first"])}, ${upTo}) AS bytes`,
    );
    const bytes = dropped?.["bytes"] ?? null;
    if (bytes === null) throw lostOwnership(sessionId);
    this.#keptBytes -= Number(bytes);
    this.#droppedBytes += Number(bytes);
  }

  /** Rejects if another daemon has taken over the command and its output. */
  async #require(call: ReturnType<typeof sql>): Promise<void> {
    const { database, sessionId } = this.#options;
    const [row] = await database.rows("writing output", sql`SELECT (${call})::int AS done`);
    if (row?.["done"] !== 1) throw lostOwnership(sessionId);
  }

  #requireOpen(): void {
    if (this.#isClosed) throw new SandboxError("CONFLICT", "The output is closed.");
  }
}
