/** The table of commands. */
import { endReasonSchema } from "@sandkasten/protocol";
import { z } from "zod";
import type { Log } from "../ports/log.ts";
import type { ExecPatch, ExecRow, Inserted, Page } from "../ports/session-store.ts";
import { flag, json, number, oneOf, optional, text } from "./columns.ts";
import { RowMapping } from "./row-mapping.ts";
import type { SessionDatabase } from "./session-database.ts";
import { Table } from "./table.ts";
import type { PageRequest } from "./table.ts";

const mapping = new RowMapping<ExecRow>("execs", {
  id: text,
  sessionId: text,
  owner: text,
  status: oneOf(["queued", "running", "done"]),
  mode: oneOf(["shell", "process"]),
  shell: optional(text),
  command: json<ExecRow["command"]>(z.union([z.string(), z.array(z.string())])),
  startedAtMs: number,
  endedAtMs: optional(number),
  exitCode: optional(number),
  signal: optional(number),
  endReason: optional(oneOf(endReasonSchema.options)),
  cwd: optional(text),
  durationMs: optional(number),
  stdoutBytes: number,
  stderrBytes: number,
  droppedBytes: number,
  shellRestarted: flag,
  background: flag,
  backgroundBytes: number,
  timeoutMs: optional(number),
  timeoutClamped: flag,
  idempotencyKey: optional(text),
  requestHash: optional(text),
  request: optional({ ...text, write: (value) => (value === "" ? null : value) }),
});

/** A command that was not started gives its key back, so that a repeated request can start it. */
const HOLDS_KEY = "(end_reason IS NULL OR end_reason <> 'not_started')";

export class ExecTable {
  readonly #database: SessionDatabase;
  readonly #table: Table<ExecRow>;

  constructor(database: SessionDatabase, log: Log | undefined) {
    this.#database = database;
    this.#table = new Table(database, mapping, log);
  }

  insert(row: ExecRow): Inserted<ExecRow> {
    return this.#database.write("adds", "adding a command", () => {
      if (this.#table.insert(row)) return { inserted: true };
      const existing = this.#ofIdempotencyKey(row.sessionId, row.idempotencyKey);
      if (existing === undefined) throw new Error(`the id ${row.id} is taken`);
      return { inserted: false, existing };
    });
  }

  update(sessionId: string, id: string, patch: ExecPatch): void {
    this.#database.write("changes", "changing a command", () => {
      this.#table.change(patch, "session_id = ? AND id = ?", sessionId, id);
    });
  }

  get(sessionId: string, id: string): ExecRow | undefined {
    return this.#database.read("reading a command", () =>
      this.#table.first("session_id = ? AND id = ?", sessionId, id),
    );
  }

  findByIdempotencyKey(sessionId: string, key: string): ExecRow | undefined {
    return this.#database.read("reading a command", () => this.#ofIdempotencyKey(sessionId, key));
  }

  list(sessionId: string, page: PageRequest): Page<ExecRow> {
    const conditions = [{ sql: "session_id = ?", values: [sessionId] }];
    return this.#database.read("listing commands", () =>
      this.#table.page({ id: "string" }, conditions, page),
    );
  }

  unfinished(): ExecRow[] {
    return this.#database.read("reading the unfinished commands", () =>
      this.#table.all("WHERE status <> 'done' ORDER BY status = 'queued', started_at_ms, id"),
    );
  }

  countAfter({ sessionId, id, startedAtMs }: ExecRow): number {
    return this.#database.read("counting commands", () => {
      const [counted] = this.#database.rows(
        "SELECT count(*) AS n FROM execs WHERE session_id = ? AND id <> ? AND (id > ? OR ended_at_ms IS NULL OR ended_at_ms >= ?)",
        sessionId,
        id,
        id,
        startedAtMs,
      );
      return Number(counted?.["n"]);
    });
  }

  #ofIdempotencyKey(sessionId: string, key: string | undefined): ExecRow | undefined {
    if (key === undefined) return undefined;
    const where = `session_id = ? AND idempotency_key = ? AND ${HOLDS_KEY}`;
    return this.#table.first(where, sessionId, key);
  }
}
