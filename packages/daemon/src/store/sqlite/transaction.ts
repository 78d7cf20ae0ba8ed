/** Several statements that SQLite commits together. */
import type { DatabaseSync } from "node:sqlite";

/** Commits everything, or nothing. */
export function inTransaction<T>(
  database: DatabaseSync,
  run: (sql: string) => void,
  work: () => T,
): T {
  run("BEGIN IMMEDIATE");
  try {
    const result = work();
    run("COMMIT");
    return result;
  } catch (error) {
    // SQLite ends the transaction itself after some failures.
    if (database.isTransaction) run("ROLLBACK");
    throw error;
  }
}
