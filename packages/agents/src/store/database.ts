/** Opens the SQLite database that agent runs and workflow runs share, also across processes. */
import { closeSync, mkdirSync, openSync } from "node:fs";
import { dirname } from "node:path";
import { DatabaseSync } from "node:sqlite";

/** One migration of the schema. Once released, its name and SQL never change. */
export interface Migration {
  readonly name: string;
  readonly sql: string;
}

/** How long a process waits for another process's write before it gives up. */
const BUSY_TIMEOUT_MS = 30_000;

/**
 * Opens the database and applies the missing migrations, all in one transaction. Throws if a newer
 * version or another program wrote it; the database is then unchanged.
 */
export function openDatabase(path: string, migrations: readonly Migration[]): DatabaseSync {
  if (path !== ":memory:") createFile(path);
  const database = new DatabaseSync(path, { timeout: BUSY_TIMEOUT_MS });
  try {
    refuseForeign(database, path);
    database.exec(`
      PRAGMA journal_mode = WAL;
      PRAGMA synchronous = NORMAL;
      PRAGMA foreign_keys = ON;
      PRAGMA trusted_schema = OFF;
    `);
    inTransaction(database, () => migrate(database, path, migrations));
    return database;
  } catch (error) {
    database.close();
    throw error;
  }
}

/** Runs the work completely or not at all, with the write lock from its start. */
export function inTransaction<Result>(database: DatabaseSync, work: () => Result): Result {
  database.exec("BEGIN IMMEDIATE");
  try {
    const result = work();
    database.exec("COMMIT");
    return result;
  } catch (error) {
    // SQLite ends the transaction itself after some failures.
    if (database.isTransaction) database.exec("ROLLBACK");
    throw error;
  }
}

/**
 * SECURITY: the database contains tasks, prompts and tool results of all runs, so no other user of
 * the machine may read it. The log files that SQLite creates next to it get the database's mode.
 * Guarded by database.test.ts.
 */
function createFile(path: string): void {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  try {
    closeSync(openSync(path, "wx", 0o600));
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "EEXIST")) throw error;
  }
}

const OWN_TABLE = "agents_migrations";

function refuseForeign(database: DatabaseSync, path: string): void {
  const names = tableNames(database);
  if (names.length > 0 && !names.includes(OWN_TABLE))
    throw new Error(
      `${path} is a database of another program. Nothing was changed; choose another data directory with --data-dir.`,
    );
}

function tableNames(database: DatabaseSync): string[] {
  try {
    return database
      .prepare("SELECT name FROM sqlite_schema WHERE type = 'table'")
      .all()
      .map(({ name }) => String(name));
  } catch (error) {
    throw new Error(
      `The database of agent runs cannot be read: ${error instanceof Error ? error.message : String(error)}. Restore a backup or choose another data directory with --data-dir.`,
      { cause: error },
    );
  }
}

/** Reads the applied migrations inside the transaction: another process may have been faster. */
function migrate(database: DatabaseSync, path: string, migrations: readonly Migration[]): void {
  database.exec(
    `CREATE TABLE IF NOT EXISTS ${OWN_TABLE} (name TEXT PRIMARY KEY, applied_at TEXT NOT NULL) STRICT`,
  );
  const rows = database.prepare(`SELECT name FROM ${OWN_TABLE} ORDER BY rowid`).all();
  const applied = new Set(rows.map(({ name }) => String(name)));
  const known = new Set(migrations.map(({ name }) => name));
  const unknown = [...applied].filter((name) => !known.has(name));
  if (unknown.length > 0)
    throw new Error(
      `${path} was written by a newer version of Sandkasten (it has the change "${unknown.join('", "')}"). Start that version, or choose another data directory with --data-dir.`,
    );
  const note = database.prepare(`INSERT INTO ${OWN_TABLE} VALUES (?, ?)`);
  for (const { name, sql } of migrations) {
    if (applied.has(name)) continue;
    database.exec(sql);
    note.run(name, new Date().toISOString());
  }
}
