/** An additional private SQLite file with prepared statements, checked for damage. */
import { dirname } from "node:path";
import { DatabaseSync } from "node:sqlite";
import type { SQLInputValue, SQLOutputValue } from "node:sqlite";
import { makeDirectory } from "../../make-directory.ts";
import { hasNoSchema } from "./migrate.ts";
import { makePrivateFile } from "./private-file.ts";
import { PreparedStatements } from "./prepared-statements.ts";
import { inTransaction } from "./transaction.ts";

export type SmallRow = Readonly<Record<string, SQLOutputValue>>;

/** SQLite's result codes for a file that is corrupt, or not a database. */
const DAMAGE: ReadonlySet<number> = new Set([11, 26]);

class DamagedFile extends Error {
  override readonly name = "DamagedFile";
}

export function isDamage(error: unknown): boolean {
  return (
    error instanceof DamagedFile ||
    (error instanceof Error && "errcode" in error && DAMAGE.has(Number(error.errcode) & 0xff))
  );
}

export class SmallDatabase {
  readonly #database: DatabaseSync;
  readonly #statements: PreparedStatements;

  private constructor(database: DatabaseSync, schema: string) {
    this.#database = database;
    // Writes even where it changes nothing, which would fail on a full disk.
    if (hasNoSchema(database)) database.exec("PRAGMA auto_vacuum = INCREMENTAL");
    database.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL");
    database.exec(schema);
    this.#statements = new PreparedStatements(database);
  }

  /**
   * SECURITY: it contains names and keys of all owners, so no other user of the machine may read
   * it. Guarded by sqlite-event-log.test.ts and sqlite-key-store.test.ts.
   */
  static async open(path: string, schema: string): Promise<SmallDatabase> {
    if (path !== ":memory:") {
      await makeDirectory(dirname(path), 0o700);
      await makePrivateFile(path);
    }
    const database = new DatabaseSync(path);
    try {
      // Before anything is read, or SQLite would share the file's index through a separate file.
      database.exec("PRAGMA locking_mode = EXCLUSIVE");
      const [verdict] = database.prepare("PRAGMA quick_check(1)").all();
      if (verdict?.["quick_check"] !== "ok")
        throw new DamagedFile(String(verdict?.["quick_check"]));
      return new SmallDatabase(database, schema);
    } catch (error) {
      database.close();
      throw error;
    }
  }

  rows(sql: string, ...values: readonly SQLInputValue[]): SmallRow[] {
    return this.#statements.of(sql).all(...values);
  }

  run(sql: string, ...values: readonly SQLInputValue[]): void {
    this.#statements.of(sql).run(...values);
  }

  /** Commits everything, or nothing. */
  transaction<T>(work: () => T): T {
    return inTransaction(this.#database, (sql) => this.run(sql), work);
  }

  close(): void {
    if (this.#database.isOpen) this.#database.close();
  }
}
