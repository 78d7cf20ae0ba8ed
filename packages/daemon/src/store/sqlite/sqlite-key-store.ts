/** Stores keys in a separate SQLite file. */
import { SandboxError } from "@sandkasten/protocol";
import type { KeyRow, KeyStore, RevokedKey } from "../../ports/key-store.ts";
import { keyOf } from "../stored-key.ts";
import { isDamage, SmallDatabase } from "./small-database.ts";

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS keys (
    id                TEXT PRIMARY KEY,
    name              TEXT NOT NULL,
    owner             TEXT NOT NULL,
    scope             TEXT NOT NULL CHECK (scope IN ('admin', 'use', 'read')),
    digest            TEXT NOT NULL UNIQUE,
    created_at_ms     REAL NOT NULL,
    expires_at_ms     REAL,
    revoked_at_ms     REAL,
    last_used_at_ms   REAL,
    max_sessions      INTEGER,
    max_running_execs INTEGER,
    max_image_bytes   INTEGER
  ) STRICT;
`;

export class SqliteKeyStore implements KeyStore {
  readonly isShared = false;
  readonly #database: SmallDatabase;

  private constructor(database: SmallDatabase) {
    this.#database = database;
  }

  /**
   * SECURITY: a damaged file is refused, never replaced: a revoked key must not come back, and an
   * issued one must not disappear, because of a damaged file. Guarded by sqlite-key-store.test.ts.
   */
  static async open(path: string): Promise<SqliteKeyStore> {
    try {
      return new SqliteKeyStore(await SmallDatabase.open(path, SCHEMA));
    } catch (cause) {
      if (!isDamage(cause)) throw cause;
      throw new SandboxError(
        "INTERNAL_ERROR",
        `The key database ${path} is damaged. Restore it from a backup, or move it away and create new keys.`,
        { cause },
      );
    }
  }

  async insert(row: KeyRow): Promise<void> {
    this.#database.run(
      `INSERT INTO keys (id, name, owner, scope, digest, created_at_ms, expires_at_ms,
         max_sessions, max_running_execs, max_image_bytes) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      row.id,
      row.name,
      row.owner,
      row.scope,
      row.digest,
      row.createdAtMs,
      row.expiresAtMs ?? null,
      row.maxSessions ?? null,
      row.maxRunningExecs ?? null,
      row.maxImageBytes ?? null,
    );
  }

  async list(): Promise<readonly KeyRow[]> {
    return this.#database.rows("SELECT * FROM keys ORDER BY created_at_ms, id").map(keyOf);
  }

  async revoke(id: string, atMs: number): Promise<RevokedKey | undefined> {
    const [revoked] = this.#database.rows(
      "UPDATE keys SET revoked_at_ms = ? WHERE id = ? AND revoked_at_ms IS NULL RETURNING *",
      atMs,
      id,
    );
    if (revoked !== undefined) return { row: keyOf(revoked), isNew: true };
    const [row] = this.#database.rows("SELECT * FROM keys WHERE id = ?", id);
    return row === undefined ? undefined : { row: keyOf(row), isNew: false };
  }

  async touch(lastUsedAtMs: ReadonlyMap<string, number>): Promise<void> {
    this.#database.transaction(() => {
      for (const [id, ms] of lastUsedAtMs)
        this.#database.run(
          "UPDATE keys SET last_used_at_ms = max(coalesce(last_used_at_ms, 0), ?) WHERE id = ?",
          ms,
          id,
        );
    });
  }

  async forgetRevokedBefore(wallMs: number): Promise<void> {
    this.#database.run("DELETE FROM keys WHERE revoked_at_ms < ?", wallMs);
  }

  close(): void {
    this.#database.close();
  }
}
