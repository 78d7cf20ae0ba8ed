/** The runs of the daemon. Only one daemon at a time uses the file, so all but the last run are over. */
import type { ClockReading, Joined } from "../../ports/session-store.ts";
import { storeTimeAtJoin } from "../store-time.ts";
import type { SessionDatabase } from "./session-database.ts";

export class DaemonRows {
  readonly #database: SessionDatabase;

  constructor(database: SessionDatabase) {
    this.#database = database;
  }

  join(address: string | undefined, reading: ClockReading): Joined {
    return this.#database.write("changes", "joining", () => {
      const storeMs = storeTimeAtJoin(this.#notes(), reading);
      const { bootId, monotonicMs, wallMs } = reading;
      const [added] = this.#database.rows(
        `INSERT INTO daemons (address, boot_id, monotonic_ms, wall_ms, store_ms, is_dead)
         VALUES (?, ?, ?, ?, ?, 0) RETURNING fence`,
        address ?? null,
        bootId,
        monotonicMs,
        wallMs,
        storeMs,
      );
      const fence = Number(added?.["fence"]);
      this.#database.run("DELETE FROM daemons WHERE fence <> ?", fence);
      return { fence, storeMs };
    });
  }

  beat(fence: number, storeMs: number, reading: ClockReading): number | undefined {
    return this.#database.write("changes", "sending the heartbeat", () => {
      const [row] = this.#database.rows(
        `UPDATE daemons SET boot_id = ?, monotonic_ms = ?, wall_ms = ?, store_ms = max(store_ms, ?)
         WHERE fence = ? AND is_dead = 0 RETURNING store_ms`,
        reading.bootId,
        reading.monotonicMs,
        reading.wallMs,
        storeMs,
        fence,
      );
      return row === undefined ? undefined : Number(row["store_ms"]);
    });
  }

  leave(fence: number): void {
    this.#database.write("changes", "leaving", () => {
      this.#database.run("UPDATE daemons SET is_dead = 1 WHERE fence = ?", fence);
    });
  }

  /** Its address, or null, if it is alive. */
  living(fence: number): { readonly address: string | null } | undefined {
    return this.#database.read("looking for a daemon", () => {
      const [row] = this.#database.rows(
        "SELECT address FROM daemons WHERE fence = ? AND is_dead = 0",
        fence,
      );
      return row === undefined ? undefined : { address: row["address"] as string | null };
    });
  }

  #notes() {
    return this.#database
      .rows("SELECT boot_id, monotonic_ms, wall_ms, store_ms FROM daemons")
      .map((row) => ({
        bootId: String(row["boot_id"]),
        monotonicMs: Number(row["monotonic_ms"]),
        wallMs: Number(row["wall_ms"]),
        storeMs: Number(row["store_ms"]),
      }));
  }
}
