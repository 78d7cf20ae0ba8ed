/** Stores keys in the database that daemons share, so each of them knows all keys. */
import { sql } from "kysely";
import type { KeyRow, KeyStore, RevokedKey } from "../../ports/key-store.ts";
import type { StoredRow } from "../row-mapping.ts";
import { keyOf } from "../stored-key.ts";
import type { Database } from "./database.ts";

export class PostgresKeyStore implements KeyStore {
  readonly isShared = true;
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  /**
   * SECURITY: a key that was issued, and above all one that was revoked, must stay so after a crash
   * of the database. Guarded by postgres-key-store.test.ts.
   */
  async insert(row: KeyRow): Promise<void> {
    await this.#database.lasting("adding a key", async (transaction) => {
      await sql`
        INSERT INTO keys (id, name, owner, scope, digest, created_at_ms, expires_at_ms, max_sessions,
          max_running_execs, max_image_bytes)
        VALUES (${row.id}, ${row.name}, ${row.owner}, ${row.scope}, ${row.digest}, ${row.createdAtMs},
          ${row.expiresAtMs ?? null}, ${row.maxSessions ?? null}, ${row.maxRunningExecs ?? null},
          ${row.maxImageBytes ?? null})`.execute(transaction);
    });
  }

  async list(): Promise<readonly KeyRow[]> {
    const rows = await this.#database.rows(
      "listing keys",
      sql`SELECT * FROM keys ORDER BY created_at_ms, id`,
    );
    return rows.map(keyOf);
  }

  async revoke(id: string, atMs: number): Promise<RevokedKey | undefined> {
    return await this.#database.lasting("revoking a key", async (transaction) => {
      const revoke = sql`UPDATE keys SET revoked_at_ms = ${atMs}
        WHERE id = ${id} AND revoked_at_ms IS NULL RETURNING *`;
      const [revoked] = (await revoke.execute(transaction)).rows as StoredRow[];
      if (revoked !== undefined) return { row: keyOf(revoked), isNew: true };
      const find = sql`SELECT * FROM keys WHERE id = ${id}`;
      const [row] = (await find.execute(transaction)).rows as StoredRow[];
      return row === undefined ? undefined : { row: keyOf(row), isNew: false };
    });
  }

  async touch(lastUsedAtMs: ReadonlyMap<string, number>): Promise<void> {
    await this.#database.rows(
      "recording the use of keys",
      sql`UPDATE keys SET last_used_at_ms = greatest(last_used_at_ms, used.ms)
          FROM unnest(${[...lastUsedAtMs.keys()]}::text[], ${[...lastUsedAtMs.values()]}::float8[])
            AS used(id, ms)
          WHERE keys.id = used.id`,
    );
  }

  async forgetRevokedBefore(wallMs: number): Promise<void> {
    await this.#database.rows(
      "forgetting keys",
      sql`DELETE FROM keys WHERE revoked_at_ms < ${wallMs}`,
    );
  }

  /** The database is closed by the store of sessions. */
  close(): void {}
}
