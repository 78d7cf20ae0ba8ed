/** The table of sessions. */
import type { SessionStatus } from "@sandkasten/protocol";
import type { Log } from "../../ports/log.ts";
import type {
  AdmittedSession,
  Page,
  SessionFilter,
  SessionPatch,
  SessionRow,
} from "../../ports/session-store.ts";
import { ENDED, OPEN, sessionMapping } from "../row-mappings.ts";
import type { SessionDatabase } from "./session-database.ts";
import { Table } from "./table.ts";
import type { Condition } from "./table.ts";

/** Matches the unique index: a session that is being destroyed does not block its key. */
const HAS_KEY = `owner = ? AND key = ? AND status IN ${OPEN}`;
/** Matches the index of the list. */
const IS_LIVING = `(status NOT IN ${ENDED})`;
/** Metadata that is not JSON matches no filter, and does not break a list. */
const HAS_METADATA = `EXISTS (
  SELECT 1 FROM json_each(CASE WHEN json_valid(metadata) THEN metadata ELSE '{}' END) AS entry
  WHERE entry.key = ? AND entry.type = 'text' AND entry.value = ?
)`;

export class SessionRows {
  readonly #database: SessionDatabase;
  readonly #table: Table<SessionRow>;

  constructor(database: SessionDatabase, log: Log | undefined) {
    this.#database = database;
    this.#table = new Table(database, sessionMapping, log);
  }

  insert(row: SessionRow, maxSessions: number): AdmittedSession {
    return this.#database.write("adds", "adding a session", () => {
      // A repeated request gets the same response, even if its key now has another session.
      const existing = this.#ofIdempotencyKey(row) ?? this.#ofKey(row.owner, row.key);
      if (existing !== undefined) return { inserted: false, existing };
      if (this.#countOpen(row.owner) >= maxSessions) return { inserted: false, overQuota: true };
      if (row.acquireSource === "pool")
        return this.#replaceSideSandbox(row)
          ? { inserted: true }
          : { inserted: false, sandboxLost: true };
      this.#insertNew(row);
      return { inserted: true };
    });
  }

  get(id: string): SessionRow | undefined {
    return this.#database.read("reading a session", () => this.#table.first("id = ?", id));
  }

  findByKey(owner: string, key: string): SessionRow | undefined {
    return this.#database.read("looking for a key", () => this.#ofKey(owner, key));
  }

  list({ owner, status, key, metadata, ...page }: SessionFilter): Page<SessionRow> {
    const conditions: Condition[] = [
      owner === undefined ? { sql: "TRUE", values: [] } : { sql: "owner = ?", values: [owner] },
    ];
    if (status !== undefined) conditions.push({ sql: "status = ?", values: [status] });
    if (key !== undefined) conditions.push({ sql: "key = ?", values: [key] });
    for (const entry of Object.entries(metadata ?? {}))
      conditions.push({ sql: HAS_METADATA, values: entry });
    return this.#database.read("listing sessions", () =>
      this.#table.page(
        { [IS_LIVING]: "number", created_at_ms: "number", id: "string" },
        conditions,
        page,
      ),
    );
  }

  /** Includes unknown statuses, since only ended sessions are certain to have no sandbox. */
  living(owner?: string): SessionRow[] {
    const ofOwner = owner === undefined ? "" : "owner = ? AND ";
    return this.#database.read("reading the active sessions", () =>
      this.#table.all(
        `WHERE ${ofOwner}status NOT IN ${ENDED} ORDER BY created_at_ms`,
        ...(owner === undefined ? [] : [owner]),
      ),
    );
  }

  /** All sessions that may have a sandbox or an unfinished command are now served with this token. */
  claim(fence: number): SessionRow[] {
    return this.#database.write("changes", "claiming sessions", () =>
      this.#table.updateAll(
        { fence },
        `fence <> ? AND (status NOT IN ${ENDED}
         OR id IN (SELECT session_id FROM execs WHERE status <> 'done'))`,
        fence,
      ),
    );
  }

  sandboxesAt(place: string): string[] {
    return this.#database.read("listing sandboxes", () =>
      this.#database
        .rows(
          `SELECT coalesce(sandbox_id, id) AS sandbox FROM sessions WHERE place = ? AND status NOT IN ${ENDED}`,
          place,
        )
        .map((row) => String(row["sandbox"])),
    );
  }

  update(
    id: string,
    fence: number,
    from: readonly SessionStatus[],
    patch: SessionPatch,
  ): SessionRow | undefined {
    const where = `id = ? AND fence = ? AND status IN (${from.map(() => "?").join(", ")})`;
    return this.#database.write("changes", "changing a session", () =>
      this.#table.update(patch, where, id, fence, ...from),
    );
  }

  /** Limited per call; their commands are deleted with them, by the foreign key. */
  forgetEndedBefore(wallMs: number, limit: number): string[] {
    const sql = `DELETE FROM sessions WHERE id IN (
      SELECT id FROM sessions WHERE status IN ${ENDED} AND ended_at_ms < ? LIMIT ?
    ) RETURNING id`;
    return this.#database.write("changes", "forgetting sessions", () =>
      this.#database.rows(sql, wallMs, limit).map(({ id }) => String(id)),
    );
  }

  /** False if there is no such side sandbox. */
  #replaceSideSandbox(row: SessionRow): boolean {
    const sql = "DELETE FROM side_sandboxes WHERE id = ? AND fence = ?";
    return this.#database.transaction(() => {
      const isDeleted = this.#database.run(sql, row.id, row.fence) > 0;
      if (isDeleted) this.#insertNew(row);
      return isDeleted;
    });
  }

  #insertNew(row: SessionRow): void {
    if (!this.#table.insert(row)) throw new Error(`the id ${row.id} is taken`);
  }

  #countOpen(owner: string): number {
    const [counted] = this.#database.rows(
      `SELECT count(*) AS n FROM sessions WHERE owner = ? AND status IN ${OPEN}`,
      owner,
    );
    return Number(counted?.["n"]);
  }

  #ofIdempotencyKey({ owner, idempotencyKey }: SessionRow): SessionRow | undefined {
    if (idempotencyKey === undefined) return undefined;
    return this.#table.first(
      "owner = ? AND idempotency_key = ? AND status <> 'failed'",
      owner,
      idempotencyKey,
    );
  }

  #ofKey(owner: string, key: string | undefined): SessionRow | undefined {
    return key === undefined ? undefined : this.#table.first(HAS_KEY, owner, key);
  }
}
