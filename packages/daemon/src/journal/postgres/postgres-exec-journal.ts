/**
 * Keeps command output in the database that daemons share, so any of them can read it, even after
 * its writer died.
 */
import { SandboxError } from "@sandkasten/protocol";
import type { OutputStream } from "@sandkasten/protocol";
import { sql } from "kysely";
import type {
  ExecJournal,
  JournalChunk,
  JournalPage,
  JournalWriter,
} from "../../ports/exec-journal.ts";
import { lostOwnership } from "../../ports/lost-ownership.ts";
import type { Database } from "../../store/postgres/database.ts";
import type { StoredRow } from "../../store/row-mapping.ts";
import { PostgresJournalWriter } from "./postgres-journal-writer.ts";

export interface PostgresExecJournalOptions {
  readonly database: Database;
  readonly maxBytesPerExec: number;
  /** Beyond that, when a command begins, the oldest output of the session's ended commands is removed. */
  readonly maxBytesPerSession: number;
}

/** Rows that are read at a time. */
const ROWS_AT_ONCE = 32;

export class PostgresExecJournal implements ExecJournal {
  readonly #options: PostgresExecJournalOptions;

  constructor(options: PostgresExecJournalOptions) {
    this.#options = options;
  }

  async write(
    sessionId: string,
    execId: string,
    beforeDrop?: (upToOffset: number) => Promise<void>,
    fence = 0,
  ): Promise<JournalWriter> {
    const { database, maxBytesPerExec, maxBytesPerSession } = this.#options;
    const [row] = await database.rows(
      "opening output for writing",
      sql`SELECT * FROM open_output(${sessionId}, ${execId}, ${fence}, ${maxBytesPerSession})`,
    );
    if (row === undefined) throw lostOwnership(sessionId);
    return new PostgresJournalWriter(row, {
      database,
      sessionId,
      execId,
      fence,
      beforeDrop,
      maxBytes: maxBytesPerExec,
    });
  }

  async read(
    sessionId: string,
    execId: string,
    offset: number,
    maxBytes: number,
  ): Promise<JournalPage> {
    if (!Number.isSafeInteger(offset) || offset < 0 || !(maxBytes >= 1))
      throw new SandboxError(
        "INVALID_REQUEST",
        `Output cannot be read from ${offset}, ${maxBytes} bytes at a time. A cursor must be at least 0, and a page at least one byte.`,
      );
    const chunks: JournalChunk[] = [];
    let next = offset;
    let skippedBytes = 0;
    let end = 0;
    for (let room = Math.floor(maxBytes); room > 0;) {
      const found = await this.#rowsFrom(sessionId, execId, next);
      // From the same snapshot as the rows: what is written later was not skipped.
      end = Number(found[0]?.["end_offset"] ?? 0);
      const rows = found.filter((row) => row["first_offset"] !== null);
      for (const row of rows) {
        const first = Number(row["first_offset"]);
        // Dropped bytes are reported at the beginning of a page.
        if (first > next && chunks.length > 0) return { chunks, nextOffset: next, skippedBytes };
        if (first > next) {
          skippedBytes += first - next;
          next = first;
        }
        const bytes = (row["bytes"] as Uint8Array).subarray(next - first, next - first + room);
        if (bytes.length === 0) continue;
        chunks.push({
          stream: row["stream"] as OutputStream,
          seq: Number(row["seq"]),
          offset: next,
          timestampMs: Number(row["timestamp_ms"]),
          bytes: new Uint8Array(bytes),
        });
        next += bytes.length;
        room -= bytes.length;
        if (room === 0) break;
      }
      if (rows.length < ROWS_AT_ONCE) break;
    }
    if (chunks.length > 0 || skippedBytes > 0) return { chunks, nextOffset: next, skippedBytes };
    if (end <= offset) return { chunks, nextOffset: offset, skippedBytes: 0 };
    return { chunks, nextOffset: end, skippedBytes: end - offset };
  }

  async remove(sessionId: string): Promise<void> {
    await this.#rows(
      "removing a session's output",
      sql`DELETE FROM outputs WHERE session_id = ${sessionId}`,
    );
  }

  async size(sessionId: string): Promise<number> {
    const [row] = await this.#rows(
      "measuring a session's output",
      sql`SELECT coalesce(sum(kept_bytes), 0)::bigint AS bytes FROM outputs WHERE session_id = ${sessionId}`,
    );
    return Number(row?.["bytes"]);
  }

  async sessions(): Promise<readonly string[]> {
    const rows = await this.#rows(
      "listing sessions",
      sql`SELECT DISTINCT session_id FROM outputs ORDER BY session_id`,
    );
    return rows.map((row) => String(row["session_id"]));
  }

  /**
   * The row that contains the offset, and those after it, each with the end of the output; one row
   * without a chunk if there are none.
   */
  async #rowsFrom(
    sessionId: string,
    execId: string,
    offset: number,
  ): Promise<readonly StoredRow[]> {
    const of = sql`session_id = ${sessionId} AND exec_id = ${execId}`;
    return await this.#rows(
      "reading output",
      sql`SELECT outputs.end_offset, page.* FROM outputs LEFT JOIN (
            SELECT first_offset, seq, stream, timestamp_ms, bytes FROM output_chunks
            WHERE ${of} AND first_offset + length(bytes) > ${offset}::bigint
              AND first_offset >= coalesce(
                (SELECT max(first_offset) FROM output_chunks WHERE ${of} AND first_offset <= ${offset}::bigint), 0)
            ORDER BY first_offset LIMIT ${ROWS_AT_ONCE}
          ) AS page ON TRUE
          WHERE ${of} ORDER BY page.first_offset`,
    );
  }

  async #rows(doing: string, query: ReturnType<typeof sql>): Promise<readonly StoredRow[]> {
    return await this.#options.database.rows(doing, query);
  }
}
