/** Stores the events of all daemons that share a Postgres database, in one order. */
import { randomBytes } from "node:crypto";
import { sql } from "kysely";
import type {
  EventLog,
  EventPage,
  EventQuery,
  EventRetention,
  NewEvent,
  StoredEvent,
} from "../../ports/event-log.ts";
import type { StoredRow } from "../row-mapping.ts";
import { eventOf } from "../stored-event.ts";
import type { Database } from "./database.ts";

/** Events removed in one transaction, so no writer waits long. */
const REMOVED_AT_ONCE = 512;

const APPEND =
  "SELECT append_events($1, $2::float8[], $3::text[], $4::text[], $5::text[], $6::text[])";

export interface PostgresEventLogOptions {
  readonly database: Database;
  /**
   * The token of the daemon that writes. Events of sessions that another daemon serves are left
   * out: that daemon reports them.
   */
  readonly fence: () => number;
}

export class PostgresEventLog implements EventLog {
  readonly isShared = true;
  readonly cursorKey: Uint8Array;
  readonly #database: Database;
  readonly #fence: () => number;

  private constructor(cursorKey: Uint8Array, { database, fence }: PostgresEventLogOptions) {
    this.cursorKey = cursorKey;
    this.#database = database;
    this.#fence = fence;
  }

  static async open(options: PostgresEventLogOptions): Promise<PostgresEventLog> {
    const [row] = await options.database.rows(
      "opening the event log",
      sql`UPDATE event_feed SET cursor_key = coalesce(cursor_key, ${randomBytes(16)})
          RETURNING cursor_key`,
    );
    return new PostgresEventLog(row?.["cursor_key"] as unknown as Uint8Array, options);
  }

  async append(events: readonly NewEvent[]): Promise<void> {
    await this.#database.run("writing events", APPEND, [
      this.#fence(),
      events.map(({ atMs }) => atMs),
      events.map(({ owner }) => owner),
      events.map(({ sessionId }) => sessionId ?? null),
      events.map(({ type }) => type),
      events.map(({ data }) => JSON.stringify(data)),
    ]);
  }

  async read({ after, limit, owner, sessionId, types }: EventQuery): Promise<EventPage> {
    const ofOwner = owner === undefined ? sql`TRUE` : sql`owner = ${owner}`;
    // One statement, so the page and the state of the log come from the same snapshot.
    const found = await this.#database.rows(
      "reading events",
      sql`SELECT event_feed.newest,
            greatest(event_feed.removed, (SELECT max(removed) FROM event_owners WHERE ${ofOwner}))
              AS removed_up_to,
            page.*
          FROM event_feed LEFT JOIN (
            SELECT * FROM events WHERE position > ${after} AND ${ofOwner} ORDER BY position LIMIT ${limit}
          ) AS page ON TRUE ORDER BY page.position`,
    );
    const [first = {}] = found;
    const rows = found.filter((row) => row["position"] !== null);
    const isLast = rows.length < limit;
    return {
      events: rows
        .filter((row) => sessionId === undefined || row["session_id"] === sessionId)
        .filter((row) => types === undefined || types.has(String(row["type"])))
        .map(eventOf),
      isLast,
      position: isLast ? Math.max(after, Number(first["newest"])) : positionOf(rows.at(-1)),
      removedUpTo: Number(first["removed_up_to"]),
    };
  }

  async latestOf(
    sessionId: string,
    withinMs: number,
    limit: number,
  ): Promise<readonly StoredEvent[]> {
    const rows = await this.#database.rows(
      "reading events of a session",
      sql`SELECT * FROM events WHERE session_id = ${sessionId} AND at_ms >= (
            SELECT at_ms FROM events WHERE session_id = ${sessionId} ORDER BY position DESC LIMIT 1
          ) - ${withinMs}::float8 ORDER BY position DESC LIMIT ${limit}`,
    );
    return rows.map(eventOf).toReversed();
  }

  async newest(): Promise<number> {
    const [row] = await this.#database.rows("reading events", sql`SELECT newest FROM event_feed`);
    return Number(row?.["newest"]);
  }

  /** Daemons that do this at the same time take turns. */
  async prune(retention: EventRetention, nowMs: number): Promise<boolean> {
    const { maxAgeMs, maxEventsPerOwner, maxEvents, maxBytes } = retention;
    const [row] = await this.#database.rows(
      "removing old events",
      sql`SELECT prune_events(${nowMs - maxAgeMs}, ${maxEventsPerOwner}, ${maxEvents}, ${maxBytes},
            ${REMOVED_AT_ONCE}) AS is_done`,
    );
    return (row?.["is_done"] as unknown) === true;
  }

  /** The database is closed by the store of sessions. */
  close(): void {}
}

function positionOf(row: StoredRow | undefined): number {
  return Number(row?.["position"]);
}
