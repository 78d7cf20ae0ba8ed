/** Recognizes databases of other programs, above all of the older Sandkasten, without changing them. */
import { copyFile, mkdtemp, open, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { hasNoSchema, schemaVersion } from "./migrate.ts";
import { sqliteCode } from "./store-failure.ts";
import { systemCode } from "../../system-errors.ts";

/** `older`: of the Sandkasten that was written in Go, which uses the same paths. */
export type Foreigner = "older" | "unknown";

/** The header of every SQLite database. */
const MAGIC = "SQLite format 3\0";
const LOGS = ["-wal", "-journal"];

/** Which other program a database file belongs to; undefined if it is ours or not a database. */
export async function foreignerAt(path: string): Promise<Foreigner | undefined> {
  const header = await readHeader(path);
  if (header.toString("latin1") !== MAGIC) return undefined;
  return looksOurs(path) ? undefined : await lookAtCopy(path);
}

/** Reads the file alone, without its logs, and leaves no trace. */
function looksOurs(path: string): boolean {
  const encoded = resolve(path).split("/").map(encodeURIComponent).join("/");
  const url = new URL(`file://${encoded}?immutable=1`);
  try {
    using database = new DatabaseSync(url, { readOnly: true });
    return !hasNoSchema(database) && foreignerIn(database) === undefined;
  } catch (error) {
    // Its last changes, in a log, may complete it.
    if (sqliteCode(error) !== undefined) return false;
    throw error;
  }
}

/** Opening the file itself would create files next to it; the last changes may be only in its log. */
async function lookAtCopy(path: string): Promise<Foreigner | undefined> {
  const directory = await mkdtemp(join(tmpdir(), "sandkasten-look-"));
  try {
    const copy = join(directory, "database");
    await copyFile(path, copy);
    for (const log of LOGS)
      await copyFile(path + log, copy + log).catch((error: unknown) => {
        if (systemCode(error) !== "ENOENT") throw error;
      });
    using database = new DatabaseSync(copy);
    return foreignerIn(database);
  } catch (error) {
    // Opening it for use reports the damage.
    if (sqliteCode(error) !== undefined) return undefined;
    throw error;
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

/**
 * Other programs count their versions in the same place, so the tables decide: those of the first
 * design, or those that every later version has.
 */
export function foreignerIn(database: DatabaseSync): Foreigner | undefined {
  const version = schemaVersion(database);
  if (version === 0 && hasNoSchema(database)) return undefined;
  const sessions = columnsOf(database, "sessions");
  const isFirstDesign = hasAll(sessions, ["id", "image", "status", "container_id"]);
  // Before and after the older program replaced Docker's containers by its own.
  const isOlder = isFirstDesign || hasAll(sessions, ["id", "image", "status", "init_pid"]);
  if (version === 0) return isOlder ? "older" : "unknown";
  const isOurs =
    version === 1
      ? isFirstDesign
      : hasAll(sessions, ["id", "owner", "status"]) &&
        hasAll(columnsOf(database, "execs"), ["id", "session_id", "owner"]);
  return isOurs ? undefined : "unknown";
}

function columnsOf(database: DatabaseSync, table: string): ReadonlySet<unknown> {
  const columns = database.prepare("SELECT name FROM pragma_table_info(?)").all(table);
  return new Set(columns.map(({ name }) => name));
}

function hasAll(columns: ReadonlySet<unknown>, names: readonly string[]): boolean {
  return names.every((name) => columns.has(name));
}

async function readHeader(path: string): Promise<Buffer> {
  const header = Buffer.alloc(MAGIC.length);
  try {
    const file = await open(path, "r");
    try {
      await file.read(header, 0, MAGIC.length, 0);
    } finally {
      await file.close();
    }
  } catch (error) {
    if (systemCode(error) !== "ENOENT" && systemCode(error) !== "ENOTDIR") throw error;
  }
  return header;
}
