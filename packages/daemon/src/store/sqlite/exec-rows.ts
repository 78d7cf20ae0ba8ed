/** The table of commands. */
import type { Log } from "../../ports/log.ts";
import { lostOwnership } from "../../ports/session-store.ts";
import type { Admitted, ExecPatch, ExecRow, Page } from "../../ports/session-store.ts";
import { execMapping, HOLDS_KEY } from "../row-mappings.ts";
import type { SessionDatabase } from "./session-database.ts";
import { Table } from "./table.ts";
import type { PageRequest } from "./table.ts";

const IS_SERVED = "SELECT 1 FROM sessions WHERE id = ? AND fence = ?";
const RUNNING_OF_OWNER = "SELECT count(*) FROM execs WHERE owner = ? AND status <> 'done'";

export class ExecRows {
  readonly #database: SessionDatabase;
  readonly #table: Table<ExecRow>;

  constructor(database: SessionDatabase, log: Log | undefined) {
    this.#database = database;
    this.#table = new Table(database, execMapping, log);
  }

  insert(row: ExecRow, fence: number, maxRunning: number): Admitted<ExecRow> {
    const { id, sessionId, owner, idempotencyKey } = row;
    return this.#database.write("adds", "adding a command", () => {
      const given = `FROM sessions WHERE id = ? AND fence = ? AND (${RUNNING_OF_OWNER}) < ?`;
      if (this.#table.insertGiven(row, given, sessionId, fence, owner, maxRunning))
        return { inserted: true };
      const existing = this.#ofIdempotencyKey(sessionId, idempotencyKey);
      if (existing !== undefined) return { inserted: false, existing };
      if (!this.#isServed(sessionId, fence)) throw lostOwnership(sessionId);
      if (this.#table.first("session_id = ? AND id = ?", sessionId, id) !== undefined)
        throw new Error(`the id ${id} is taken`);
      return { inserted: false, overQuota: true };
    });
  }

  update(sessionId: string, id: string, fence: number, patch: ExecPatch): void {
    this.#database.write("changes", "changing a command", () => {
      const where = `session_id = ? AND id = ? AND EXISTS (${IS_SERVED})`;
      if (this.#table.change(patch, where, sessionId, id, sessionId, fence)) return;
      if (!this.#isServed(sessionId, fence)) throw lostOwnership(sessionId);
    });
  }

  #isServed(sessionId: string, fence: number): boolean {
    return this.#database.rows(IS_SERVED, sessionId, fence).length > 0;
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

  unfinished(fence: number): ExecRow[] {
    return this.#database.read("reading the unfinished commands", () =>
      this.#table.all(
        `WHERE status <> 'done' AND session_id IN (SELECT id FROM sessions WHERE fence = ?)
         ORDER BY status = 'queued', started_at_ms, id`,
        fence,
      ),
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
