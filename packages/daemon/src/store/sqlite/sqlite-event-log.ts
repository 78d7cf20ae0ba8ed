/** Stores events in a separate SQLite file, so a flood of them does not slow down sessions. */
import { randomBytes } from "node:crypto";
import { rename, rm } from "node:fs/promises";
import type {
  EventLog,
  EventPage,
  EventQuery,
  EventRetention,
  NewEvent,
  StoredEvent,
} from "../../ports/event-log.ts";
import type { Log } from "../../ports/log.ts";
import { eventOf } from "../stored-event.ts";
import { isDamage, SmallDatabase } from "./small-database.ts";
import type { SmallRow } from "./small-database.ts";

/** Events removed in one transaction, so nothing else waits long. */
const REMOVED_AT_ONCE = 512;
const SHRUNK_AT_ONCE_PAGES = 256;

/**
 * `position` is never reused, even after all events are gone. An owner's removal mark is kept while
 * it is beyond the mark of all owners (the owner that is NULL).
 */
const SCHEMA = `
  CREATE TABLE IF NOT EXISTS events (
    position   INTEGER PRIMARY KEY AUTOINCREMENT,
    at_ms      REAL NOT NULL,
    owner      TEXT NOT NULL,
    session_id TEXT,
    type       TEXT NOT NULL,
    data       TEXT NOT NULL,
    bytes      INTEGER NOT NULL
  ) STRICT;
  CREATE INDEX IF NOT EXISTS events_by_owner ON events (owner);
  CREATE INDEX IF NOT EXISTS events_by_session ON events (session_id) WHERE session_id IS NOT NULL;
  CREATE TABLE IF NOT EXISTS removed (
    owner      TEXT PRIMARY KEY,
    position   INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS feed (cursor_key BLOB NOT NULL, removed INTEGER NOT NULL) STRICT;
`;

/** Rows of a batch are inserted by this many, the rest one by one. */
const INSERTED_AT_ONCE = 16;
const INSERT_ONE = insertSql(1);
const INSERT_MANY = insertSql(INSERTED_AT_ONCE);

function insertSql(rows: number): string {
  const marks = Array.from({ length: rows }, () => "(?, ?, ?, ?, ?, ?)").join(", ");
  return `INSERT INTO events (at_ms, owner, session_id, type, data, bytes) VALUES ${marks}`;
}

/** Approximate size of an event besides its texts. */
const ROW_BYTES = 64;

interface Share {
  events: number;
  bytes: number;
}

export interface SqliteEventLogOptions {
  /** `:memory:` for one that ends with the process. */
  readonly path: string;
  readonly log?: Log;
}

export class SqliteEventLog implements EventLog {
  readonly isShared = false;
  readonly cursorKey: Uint8Array;
  readonly #database: SmallDatabase;
  /** Each owner's share of the log. */
  readonly #shares = new Map<string, Share>();
  /** The position up to which an owner's events were removed because of the quotas. */
  readonly #removedOf: Map<string, number>;
  /** The same for all owners, by age. */
  #removed: number;

  private constructor(database: SmallDatabase) {
    this.#database = database;
    this.#database.run(
      "INSERT INTO feed SELECT ?, 0 WHERE NOT EXISTS (SELECT 1 FROM feed)",
      randomBytes(16),
    );
    const [feed] = this.#database.rows("SELECT cursor_key, removed FROM feed");
    this.cursorKey = feed?.["cursor_key"] as Uint8Array;
    this.#removed = Number(feed?.["removed"]);
    this.#removedOf = new Map(
      this.#database
        .rows("SELECT owner, position FROM removed")
        .map((row) => [String(row["owner"]), Number(row["position"])]),
    );
    const shares =
      "SELECT owner, count(*) AS events, sum(bytes) AS bytes FROM events GROUP BY owner";
    for (const { owner, events, bytes } of this.#database.rows(shares))
      this.#shares.set(String(owner), { events: Number(events), bytes: Number(bytes) });
  }

  /** A damaged log is moved aside and replaced: only readers of events depend on it. */
  static async open({ path, log }: SqliteEventLogOptions): Promise<SqliteEventLog> {
    try {
      return new SqliteEventLog(await SmallDatabase.open(path, SCHEMA));
    } catch (error) {
      if (!isDamage(error)) throw error;
      const aside = `${path}.damaged`;
      log?.error({ err: error, aside }, "the event log is damaged; moved it aside");
      await rename(path, aside);
      // The old content's log must not be applied to the new file.
      for (const rest of ["-wal", "-shm"]) await rm(`${path}${rest}`, { force: true });
      return new SqliteEventLog(await SmallDatabase.open(path, SCHEMA));
    }
  }

  async append(events: readonly NewEvent[]): Promise<void> {
    const rows = events.map(rowOf);
    const last = rows.length - (rows.length % INSERTED_AT_ONCE);
    this.#database.transaction(() => {
      for (let at = 0; at < last; at += INSERTED_AT_ONCE)
        this.#database.run(INSERT_MANY, ...rows.slice(at, at + INSERTED_AT_ONCE).flat());
      for (const row of rows.slice(last)) this.#database.run(INSERT_ONE, ...row);
    });
    for (const [, owner, , , , bytes] of rows) this.#count(owner, 1, bytes);
  }

  async read({ after, limit, owner, sessionId, types }: EventQuery): Promise<EventPage> {
    const where = owner === undefined ? "position > ?" : "owner = ? AND position > ?";
    const values = owner === undefined ? [after] : [owner, after];
    const found = this.#database.rows(
      `SELECT * FROM events WHERE ${where} ORDER BY position LIMIT ?`,
      ...values,
      limit,
    );
    const events = found
      .filter((row) => sessionId === undefined || row["session_id"] === sessionId)
      .filter((row) => types === undefined || types.has(String(row["type"])))
      .map(eventOf);
    const isLast = found.length < limit;
    return {
      events,
      isLast,
      position: isLast
        ? Math.max(after, this.#newest())
        : Number(found.at(-1)?.["position"] ?? after),
      removedUpTo: this.#removedUpTo(owner),
    };
  }

  async latestOf(
    sessionId: string,
    withinMs: number,
    limit: number,
  ): Promise<readonly StoredEvent[]> {
    const rows = this.#database.rows(
      `SELECT * FROM events WHERE session_id = ? AND at_ms >= (
         SELECT at_ms FROM events WHERE session_id = ? ORDER BY position DESC LIMIT 1
       ) - ? ORDER BY position DESC LIMIT ?`,
      sessionId,
      sessionId,
      withinMs,
      limit,
    );
    return rows.map(eventOf).toReversed();
  }

  async newest(): Promise<number> {
    return this.#newest();
  }

  async prune(retention: EventRetention, nowMs: number): Promise<boolean> {
    const old = this.#removeOld(nowMs - retention.maxAgeMs);
    const surplus = this.#removeSurplus(retention);
    this.#shrink();
    return old < REMOVED_AT_ONCE && surplus === 0;
  }

  close(): void {
    this.#database.close();
  }

  /** In portions: large events leave more free pages than a round should give back. */
  #shrink(): void {
    const [free] = this.#database.rows("PRAGMA freelist_count");
    if (Number(free?.["freelist_count"]) > 0)
      this.#database.rows(`PRAGMA incremental_vacuum(${SHRUNK_AT_ONCE_PAGES})`);
  }

  #newest(): number {
    const [row] = this.#database.rows("SELECT seq FROM sqlite_sequence WHERE name = 'events'");
    return Number(row?.["seq"] ?? 0);
  }

  #removedUpTo(owner: string | undefined): number {
    if (owner !== undefined) return Math.max(this.#removed, this.#removedOf.get(owner) ?? 0);
    return [...this.#removedOf.values()].reduce(
      (one, other) => Math.max(one, other),
      this.#removed,
    );
  }

  #count(owner: string, events: number, bytes: number): void {
    const share = this.#shares.get(owner) ?? { events: 0, bytes: 0 };
    share.events += events;
    share.bytes += bytes;
    if (share.events <= 0) this.#shares.delete(owner);
    else this.#shares.set(owner, share);
  }

  /** By age, for all owners. The oldest come first, so no index by time is needed. */
  #removeOld(beforeMs: number): number {
    return this.#database.transaction(() => {
      const gone = this.#database.rows(
        `DELETE FROM events WHERE position IN (
           SELECT position FROM (SELECT position, at_ms FROM events ORDER BY position LIMIT ${REMOVED_AT_ONCE})
           WHERE at_ms < ?
         ) RETURNING position, owner, bytes`,
        beforeMs,
      );
      this.#forget(gone);
      if (gone.length === 0) return 0;
      this.#removed = Math.max(this.#removed, ...gone.map(({ position }) => Number(position)));
      this.#database.run("UPDATE feed SET removed = ?", this.#removed);
      this.#database.run("DELETE FROM removed WHERE position <= ?", this.#removed);
      for (const [owner, position] of this.#removedOf)
        if (position <= this.#removed) this.#removedOf.delete(owner);
      return gone.length;
    });
  }

  /**
   * SECURITY: the owner with the most events loses first, so no tenant can push another's events
   * out of the log. Guarded by the suite of event logs.
   */
  #removeSurplus({ maxEventsPerOwner, maxEvents, maxBytes }: EventRetention): number {
    const shares = [...this.#shares].toSorted(([, one], [, other]) => other.bytes - one.bytes);
    const events = shares.reduce((sum, [, share]) => sum + share.events, 0);
    const bytes = shares.reduce((sum, [, share]) => sum + share.bytes, 0);
    const isOverAll = events > maxEvents || bytes > maxBytes;
    const over =
      shares.find(([, share]) => share.events > maxEventsPerOwner) ??
      (isOverAll ? shares[0] : undefined);
    if (over === undefined) return 0;
    const [owner, share] = over;
    // A sixteenth of the largest owner's events is removed at once, to avoid a round per event.
    const count = Math.min(
      REMOVED_AT_ONCE,
      Math.max(share.events - maxEventsPerOwner, isOverAll ? Math.ceil(share.events / 16) : 0),
    );
    return this.#database.transaction(() => {
      const gone = this.#database.rows(
        `DELETE FROM events WHERE position IN (
           SELECT position FROM events WHERE owner = ? ORDER BY position LIMIT ?
         ) RETURNING position, owner, bytes`,
        owner,
        count,
      );
      this.#forget(gone);
      const last = Math.max(...gone.map(({ position }) => Number(position)));
      this.#removedOf.set(owner, last);
      this.#database.run(
        "INSERT INTO removed VALUES (?, ?) ON CONFLICT (owner) DO UPDATE SET position = excluded.position",
        owner,
        last,
      );
      return gone.length;
    });
  }

  #forget(gone: readonly SmallRow[]): void {
    for (const { owner, bytes } of gone) this.#count(String(owner), -1, -Number(bytes));
  }
}

type EventRow = [
  atMs: number,
  owner: string,
  sessionId: string | null,
  type: string,
  data: string,
  bytes: number,
];

function rowOf({ atMs, owner, sessionId, type, data }: NewEvent): EventRow {
  const text = JSON.stringify(data);
  const bytes = ROW_BYTES + owner.length + type.length + Buffer.byteLength(text);
  return [atMs, owner, sessionId ?? null, type, text, bytes];
}
