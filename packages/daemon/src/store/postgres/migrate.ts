/** Migrates a Postgres database to the newest schema, all steps or none. */
import { SandboxError } from "@sandkasten/protocol";
import { sql } from "kysely";
import type { Transaction } from "kysely";
import type { Migration } from "../migration.ts";
import type { Tables } from "./tables.ts";

/** Daemons that start at the same time run this one after the other. */
export async function migrate(
  transaction: Transaction<Tables>,
  migrations: readonly Migration[],
): Promise<void> {
  await sql`SELECT pg_advisory_xact_lock(hashtextextended('migrations', 0))`.execute(transaction);
  const version = await versionOf(transaction);
  const known = migrations.at(-1)?.version ?? 0;
  if (version > known)
    throw new SandboxError(
      "INTERNAL_ERROR",
      `The session database was written by a newer version of the daemon (schema version ${version}; this version supports up to ${known}). Start that version, or restore a backup from before the update.`,
    );
  for (const migration of migrations.filter((step) => step.version > version)) {
    await sql.raw(migration.sql).execute(transaction);
    await sql`UPDATE schema_version SET version = ${migration.version}`.execute(transaction);
  }
}

async function versionOf(transaction: Transaction<Tables>): Promise<number> {
  if (await exists(transaction, "schema_version")) {
    const { rows } = await sql`SELECT version FROM schema_version`.execute(transaction);
    return Number((rows[0] as { version?: unknown } | undefined)?.version);
  }
  if (await exists(transaction, "sessions"))
    throw new SandboxError(
      "INTERNAL_ERROR",
      "database_url points to another program's database, which has a table `sessions`. Nothing was changed. Give the daemon a separate database.",
    );
  await sql`CREATE TABLE schema_version (version BIGINT NOT NULL)`.execute(transaction);
  await sql`INSERT INTO schema_version VALUES (0)`.execute(transaction);
  return 0;
}

async function exists(transaction: Transaction<Tables>, table: string): Promise<boolean> {
  const { rows } = await sql`SELECT 1 WHERE to_regclass(${table}) IS NOT NULL`.execute(transaction);
  return rows.length > 0;
}
