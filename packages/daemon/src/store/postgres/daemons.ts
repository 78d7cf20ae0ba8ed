/** The runs of daemons that share a database: which are alive, and the store's time. */
import { setTimeout as sleep } from "node:timers/promises";
import { sql } from "kysely";
import type { ClockReading, DaemonRow, Joined } from "../../ports/session-store.ts";
import type { StoredRow } from "../row-mapping.ts";
import { ENDED } from "../row-mappings.ts";
import { storeTimeAtJoin } from "../store-time.ts";
import type { ClockNote } from "../store-time.ts";
import type { Database } from "./database.ts";

/** How long a finished run is remembered, in the store's time. */
const REMEMBERED_MS = 86_400_000;
/** The longest silence of a live daemon, in heartbeat intervals. */
const SILENT_INTERVALS = 1.5;

export interface Heartbeat {
  readonly intervalMs: number;
  readonly deadAfterMs: number;
}

interface DaemonNote extends ClockNote {
  readonly isDead: boolean;
}

export class Daemons {
  readonly #database: Database;
  readonly #heartbeat: Heartbeat;
  readonly #wallMs: (() => number) | undefined;

  /** Uses the database's wall clock, which all daemons share, unless another is given. */
  constructor(database: Database, heartbeat: Heartbeat, wallMs?: () => number) {
    this.#database = database;
    this.#heartbeat = heartbeat;
    this.#wallMs = wallMs;
  }

  async join(address: string | undefined, reading: ClockReading): Promise<Joined> {
    const othersMs = await this.#timeOfOthers(reading);
    return await this.#database.lasting("joining", async (transaction) => {
      await sql`SELECT pg_advisory_xact_lock(hashtextextended('joins', 0))`.execute(transaction);
      const notes = (await this.#notesBy(() => NOTES.execute(transaction))) as DaemonNote[];
      const { rows: clock } = await sql`SELECT ${this.#wall()} AS wall_ms`.execute(transaction);
      const wallMs = Number((clock[0] as StoredRow)["wall_ms"]);
      const newestMs = Math.max(0, ...notes.map(({ storeMs }) => storeMs));
      const storeMs =
        othersMs === undefined
          ? storeTimeAtJoin(notes, { ...reading, wallMs })
          : Math.max(newestMs, othersMs);
      await sql`DELETE FROM daemons WHERE is_dead = 1 AND store_ms < ${storeMs - REMEMBERED_MS}
        AND fence NOT IN (SELECT fence FROM sessions WHERE status NOT IN ${sql.raw(ENDED)})`.execute(
        transaction,
      );
      const { rows } = await sql`
        INSERT INTO daemons (address, boot_id, monotonic_ms, wall_ms, store_ms, is_dead)
        VALUES (${address ?? null}, ${reading.bootId}, ${reading.monotonicMs}, ${wallMs}, ${storeMs}, 0)
        RETURNING fence`.execute(transaction);
      return { fence: Number((rows[0] as StoredRow)["fence"]), storeMs };
    });
  }

  async beat(fence: number, storeMs: number, reading: ClockReading): Promise<number | undefined> {
    const [row] = await this.#database.rows(
      "sending the heartbeat",
      sql`UPDATE daemons SET boot_id = ${reading.bootId}, monotonic_ms = ${reading.monotonicMs},
            wall_ms = ${this.#wall()},
            store_ms = greatest(${storeMs}::float8, (SELECT max(store_ms) FROM daemons))
          WHERE fence = ${fence} AND is_dead = 0 RETURNING store_ms`,
    );
    return row === undefined ? undefined : Number(row["store_ms"]);
  }

  async leave(fence: number): Promise<void> {
    await this.#database.rows(
      "leaving",
      sql`UPDATE daemons SET is_dead = 1 WHERE fence = ${fence}`,
    );
  }

  async living(fence: number): Promise<DaemonRow | undefined> {
    const [row] = await this.#database.rows(
      "looking for a daemon",
      sql`SELECT address FROM daemons WHERE fence = ${fence} AND is_dead = 0`,
    );
    if (row === undefined) return undefined;
    return { fence, ...(row["address"] !== null && { address: String(row["address"]) }) };
  }

  /**
   * The time according to other live daemons: no wall clock, which may have been changed, is then
   * needed. Undefined if there are none, or if the daemon's own boot knows the time.
   */
  async #timeOfOthers({ bootId }: ClockReading): Promise<number | undefined> {
    const before = await this.#notes();
    if (before.some((note) => note.bootId === bootId)) return undefined;
    if (before.every(({ isDead }) => isDead)) return undefined;
    const newest = (notes: readonly DaemonNote[]): number =>
      Math.max(...notes.map(({ storeMs }) => storeMs));
    await sleep(SILENT_INTERVALS * this.#heartbeat.intervalMs);
    const after = await this.#notes();
    return newest(after) > newest(before) ? newest(after) : undefined;
  }

  async #notes(): Promise<readonly DaemonNote[]> {
    return await this.#notesBy(async () => ({
      rows: await this.#database.rows("reading the clocks", NOTES),
    }));
  }

  async #notesBy(
    read: () => Promise<{ readonly rows: readonly unknown[] }>,
  ): Promise<readonly DaemonNote[]> {
    return ((await read()).rows as readonly StoredRow[]).map((row) => ({
      bootId: String(row["boot_id"]),
      monotonicMs: Number(row["monotonic_ms"]),
      wallMs: Number(row["wall_ms"]),
      storeMs: Number(row["store_ms"]),
      isDead: row["is_dead"] === 1,
    }));
  }

  #wall() {
    return this.#wallMs === undefined
      ? sql`(extract(epoch FROM clock_timestamp()) * 1000)::float8`
      : sql`${this.#wallMs()}::float8`;
  }
}

const NOTES = sql`SELECT boot_id, monotonic_ms, wall_ms, store_ms, is_dead FROM daemons`;
