/** Migrates a database to the newest schema, one step at a time, each completely or not at all. */
import type { DatabaseSync } from "node:sqlite";
import { SandboxError } from "@sandkasten/protocol";
import type { Migration } from "../migration.ts";
import { isOutOfSpace } from "./store-failure.ts";

export function schemaVersion(database: DatabaseSync): number {
  return Number(database.prepare("PRAGMA user_version").get()?.["user_version"]);
}

export function hasNoSchema(database: DatabaseSync): boolean {
  return database.prepare("SELECT 1 FROM sqlite_schema LIMIT 1").get() === undefined;
}

export function migrate(database: DatabaseSync, migrations: readonly Migration[]): void {
  const from = schemaVersion(database);
  for (const migration of migrations.filter(({ version }) => version > from)) {
    database.exec("BEGIN IMMEDIATE");
    try {
      database.exec(migration.sql);
      database.exec(`PRAGMA user_version = ${String(migration.version)}`);
      database.exec("COMMIT");
    } catch (error) {
      // SQLite ends the transaction itself after some failures.
      if (database.isTransaction) database.exec("ROLLBACK");
      if (isOutOfSpace(error)) throw error;
      throw new SandboxError(
        "INTERNAL_ERROR",
        `The session database could not be migrated to version ${String(migration.version)} (${migration.name}): ${error instanceof Error ? error.message : String(error)}. That step was rolled back.`,
        { cause: error },
      );
    }
  }
}
