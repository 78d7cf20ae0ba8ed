/** Recognizes databases of other programs, above all of the older Sandkasten, without changing them. */
import { copyFile, mkdtemp, open, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { hasNoSchema, schemaVersion } from "./migrate.ts";
import { systemCode } from "./store-failure.ts";

/** `older`: of the Sandkasten that was written in Go, which uses the same paths. */
export type Foreigner = "older" | "unknown";

/** The header of every SQLite database. */
const MAGIC = "SQLite format 3\0";
const VERSION_OFFSET = 60;
const HEADER_BYTES = 100;

/** Which other program a database file belongs to; undefined if it is ours or not a database. */
export async function foreignerAt(path: string): Promise<Foreigner | undefined> {
  const header = await readHeader(path);
  if (header.toString("latin1", 0, MAGIC.length) !== MAGIC) return undefined;
  // Every version of ours marks its database with its schema version.
  if (header.readUInt32BE(VERSION_OFFSET) !== 0) return undefined;
  return await lookAtCopy(path);
}

/** Opening the file itself would create files next to it; the last changes may be only in its log. */
async function lookAtCopy(path: string): Promise<Foreigner | undefined> {
  const directory = await mkdtemp(join(tmpdir(), "sandkasten-look-"));
  try {
    const copy = join(directory, "database");
    await copyFile(path, copy);
    await copyFile(`${path}-wal`, `${copy}-wal`).catch((error: unknown) => {
      if (systemCode(error) !== "ENOENT") throw error;
    });
    const database = new DatabaseSync(copy);
    try {
      return foreignerIn(database);
    } finally {
      database.close();
    }
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

export function foreignerIn(database: DatabaseSync): Foreigner | undefined {
  if (schemaVersion(database) !== 0 || hasNoSchema(database)) return undefined;
  const columns = database.prepare("SELECT name FROM pragma_table_info('sessions')").all();
  const names = new Set(columns.map(({ name }) => name));
  return names.has("id") && names.has("image") && names.has("status") ? "older" : "unknown";
}

async function readHeader(path: string): Promise<Buffer> {
  const header = Buffer.alloc(HEADER_BYTES);
  try {
    const file = await open(path, "r");
    try {
      await file.read(header, 0, HEADER_BYTES, 0);
    } finally {
      await file.close();
    }
  } catch (error) {
    if (systemCode(error) !== "ENOENT" && systemCode(error) !== "ENOTDIR") throw error;
  }
  return header;
}
