/** Opens the database file for this process alone, after checking that it is intact and ours. */
import { statSync } from "node:fs";
import { chmod, open, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { SandboxError } from "@sandkasten/protocol";
import { makeDirectory } from "../../make-directory.ts";
import { foreignerIn } from "./foreign-database.ts";
import { hasNoSchema, migrate, schemaVersion } from "./migrate.ts";
import { migrationsOf } from "../migrations.ts";
import {
  damaged,
  isOutOfSpace,
  isSqliteKind,
  SQLITE,
  sqliteCode,
  storeFailure,
} from "./store-failure.ts";
import { systemCode } from "../../system-errors.ts";

const MIGRATIONS = migrationsOf("sqlite");

export const IN_MEMORY = ":memory:";

/** SQLite treats a smaller remnant of a database as an empty one. */
const SMALLEST_DATABASE_BYTES = 512;

export interface OpenedDatabase {
  readonly database: DatabaseSync;
  /** There was no schema before. */
  readonly isNew: boolean;
}

export async function openDatabase(path: string): Promise<OpenedDatabase> {
  try {
    if (path === IN_MEMORY) return takeOver(new DatabaseSync(path));
    await makeFile(path);
    refuseRemains(path);
    return await openFile(path, looksSound(path));
  } catch (error) {
    throw storeFailure(error, path, "opening it");
  }
}

/**
 * SECURITY: it contains names, keys and commands of all owners, so no other user of the machine may
 * read it (threat: reaching another tenant). An existing directory is left unchanged, because it
 * may hold other files. Guarded by sqlite-session-store.test.ts.
 */
async function makeFile(path: string): Promise<void> {
  await makeDirectory(dirname(path), 0o700);
  try {
    // Exclusively: closing a descriptor of a file releases this process's locks on it.
    const file = await open(path, "wx", 0o600);
    await file.close();
  } catch (error) {
    if (systemCode(error) !== "EEXIST") throw error;
  }
}

/**
 * Refuses a file that SQLite would treat as an empty database and overwrite.
 *
 * SECURITY: a database that lost its content must not look new, or running sandboxes would have no
 * owner (threat: a damaged database). Guarded by damaged-database.test.ts.
 */
function refuseRemains(path: string): void {
  const size = sizeOf(path);
  if (size > 0 && size < SMALLEST_DATABASE_BYTES) throw damaged(path, "it is truncated");
  if (size === 0 && sizeOf(`${path}-wal`) > 0)
    throw damaged(path, "it is empty, but its log is not");
}

async function openFile(path: string, isChecked: boolean): Promise<OpenedDatabase> {
  const database = new DatabaseSync(path, { enableForeignKeyConstraints: false });
  try {
    database.exec("PRAGMA locking_mode = EXCLUSIVE");
    if (!isChecked) requireSound(database, path);
    // A new log gets the database's mode; one that was left behind may have another.
    await chmod(path, 0o600);
    if (sizeOf(`${path}-wal`) > 0) await chmod(`${path}-wal`, 0o600);
    const opened = takeOver(database);
    // Left by the check before; since we hold the lock, no other process uses it.
    await rm(`${path}-shm`, { force: true });
    return opened;
  } catch (error) {
    database.close();
    throw error;
  }
}

/** Marks a database on which no daemon has started yet. */
const UNSETTLED = 0x5361_6e64;

function applicationId(database: DatabaseSync): number {
  return Number(database.prepare("PRAGMA application_id").get()?.["application_id"]);
}

function takeOver(database: DatabaseSync): OpenedDatabase {
  if (hasNoSchema(database)) database.exec("PRAGMA auto_vacuum = INCREMENTAL");
  else if (!canShrink(database)) makeShrinkable(database);
  // NORMAL survives the end of the process at any instant; only a power failure may lose the last
  // changes.
  database.exec(`
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = NORMAL;
    PRAGMA temp_store = MEMORY;
    PRAGMA trusted_schema = OFF;
    PRAGMA secure_delete = FAST;
  `);
  if (hasNoSchema(database)) database.exec(`PRAGMA application_id = ${String(UNSETTLED)}`);
  migrate(database, MIGRATIONS);
  database.exec("PRAGMA foreign_keys = ON");
  return { database, isNew: applicationId(database) === UNSETTLED };
}

function canShrink(database: DatabaseSync): boolean {
  return Number(database.prepare("PRAGMA auto_vacuum").get()?.["auto_vacuum"]) !== 0;
}

/** Rewrites a database of an earlier version once. Without disk space for that, it stays unchanged. */
function makeShrinkable(database: DatabaseSync): void {
  try {
    database.exec("PRAGMA auto_vacuum = INCREMENTAL; VACUUM");
  } catch (error) {
    if (!isOutOfSpace(error)) throw error;
  }
}

/**
 * Checks without changes, because closing a database that was opened for writing moves its log into
 * it. False if it cannot be checked without writing: another journal mode's transaction must be
 * rolled back first, or the disk has no space for the shared memory of readers.
 */
function looksSound(path: string): boolean {
  const database = new DatabaseSync(path, { readOnly: true });
  try {
    requireSound(database, path);
    return true;
  } catch (error) {
    if (sqliteCode(error) === SQLITE.READONLY_ROLLBACK || isSqliteKind(error, SQLITE.IOERR))
      return false;
    throw error;
  } finally {
    database.close();
  }
}

/**
 * SECURITY: a damaged database is never trusted, so nothing is removed because of it (threat: a
 * damaged database). Guarded by damaged-database.test.ts.
 */
function requireSound(database: DatabaseSync, path: string): void {
  const [first] = database.prepare("PRAGMA quick_check(1)").all();
  const verdict = String(first?.["quick_check"]).replaceAll(/\s+/gu, " ");
  if (verdict !== "ok") throw damaged(path, verdict);
  // A page may be half written while the log still has all of it.
  const pageBytes = Number(database.prepare("PRAGMA page_size").get()?.["page_size"]);
  if (sizeOf(path) % pageBytes !== 0 && sizeOf(`${path}-wal`) === 0)
    throw damaged(path, "it is truncated");
  if (foreignerIn(database) !== undefined) {
    throw new SandboxError(
      "INTERNAL_ERROR",
      `${path} is another program's database. Nothing was changed. Choose another file.`,
    );
  }
  const known = MIGRATIONS.at(-1)?.version ?? 0;
  const version = schemaVersion(database);
  if (version > known) {
    throw new SandboxError(
      "INTERNAL_ERROR",
      `The session database ${path} was written by a newer version of the daemon (schema version ${String(version)}; this version supports up to ${String(known)}). Start that version, or restore a backup from before the update.`,
    );
  }
}

/** 0 for a file that does not exist. */
function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}
