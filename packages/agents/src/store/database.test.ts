/**
 * Databases that are new, older, newer, foreign, damaged, and opened by several processes at once.
 */
import { execFile } from "node:child_process";
import { mkdtemp, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { promisify } from "node:util";
import { afterEach, beforeEach, expect, test } from "vitest";
import { inTransaction, openDatabase } from "./database.ts";
import type { Migration } from "./database.ts";

const FIRST: Migration = { name: "things-1", sql: "CREATE TABLE things (name TEXT) STRICT" };
const SECOND: Migration = {
  name: "things-2",
  sql: "ALTER TABLE things ADD COLUMN size INTEGER NOT NULL DEFAULT 7",
};

let directory: string;
let path: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "sandkasten-agents-db-"));
  path = join(directory, "data", "agents.db");
});
afterEach(async () => await rm(directory, { recursive: true, force: true }));

test("a new database gets all migrations, and only its owner can read it", async () => {
  using database = openDatabase(path, [FIRST, SECOND]);
  database.exec("INSERT INTO things (name) VALUES ('a')");
  expect(database.prepare("SELECT * FROM things").all()).toEqual([{ name: "a", size: 7 }]);
  expect((await stat(path)).mode & 0o777).toBe(0o600);
  expect((await stat(`${path}-wal`)).mode & 0o777).toBe(0o600);
  expect((await stat(join(directory, "data"))).mode & 0o777).toBe(0o700);
});

test("an older database keeps its rows and gets the missing migrations, each once", () => {
  {
    using older = openDatabase(path, [FIRST]);
    older.exec("INSERT INTO things VALUES ('a')");
  }
  for (let time = 0; time < 2; time++) {
    using newer = openDatabase(path, [FIRST, SECOND]);
    expect(newer.prepare("SELECT * FROM things").all()).toEqual([{ name: "a", size: 7 }]);
  }
});

test("a migration that fails does not change the database", () => {
  openDatabase(path, [FIRST]).close();
  const broken: Migration = { name: "broken", sql: "DROP TABLE things; SELECT nonsense" };
  expect(() => openDatabase(path, [FIRST, SECOND, broken])).toThrow(/nonsense/);
  using database = openDatabase(path, [FIRST, SECOND]);
  expect(database.prepare("SELECT count(*) AS rows FROM things").get()).toEqual({ rows: 0 });
});

test("a database of a newer version is refused, unchanged, with what to do", () => {
  openDatabase(path, [FIRST, SECOND]).close();
  expect(() => openDatabase(path, [FIRST])).toThrow(
    /agents\.db was written by a newer version of Sandkasten \(it has the change "things-2"\)\. Start that version/,
  );
});

test("a database of another program is refused and not changed", () => {
  openDatabase(path, []).close();
  const foreign = join(directory, "foreign.db");
  {
    using database = new DatabaseSync(foreign);
    database.exec("CREATE TABLE users (name TEXT)");
  }
  expect(() => openDatabase(foreign, [FIRST])).toThrow(
    /foreign\.db is a database of another program/,
  );
  using database = new DatabaseSync(foreign);
  expect(database.prepare("SELECT name FROM sqlite_schema").all()).toEqual([{ name: "users" }]);
});

test("a file that is not a database is refused with what to do", async () => {
  const text = join(directory, "notes.txt");
  await writeFile(text, "just some notes that are long enough to not be empty\n".repeat(100));
  expect(() => openDatabase(text, [FIRST])).toThrow(/cannot be read: .*--data-dir/);
});

test("a transaction that throws changes nothing", () => {
  using database = openDatabase(path, [FIRST]);
  expect(() =>
    inTransaction(database, () => {
      database.exec("INSERT INTO things VALUES ('a')");
      throw new Error("no");
    }),
  ).toThrow("no");
  expect(database.prepare("SELECT * FROM things").all()).toEqual([]);
});

test("processes that open one new database at once apply each migration once, and all can write", async () => {
  const program = `
    const { openDatabase } = await import(${JSON.stringify(new URL("./database.ts", import.meta.url).href)});
    const database = openDatabase(${JSON.stringify(path)}, ${JSON.stringify([FIRST, SECOND])});
    const insert = database.prepare("INSERT INTO things (name) VALUES (?)");
    for (let count = 0; count < 50; count++) insert.run(String(process.pid));
  `;
  const run = promisify(execFile);
  const start = async () => await run(process.execPath, ["--input-type=module", "--eval", program]);
  await Promise.all([start(), start(), start(), start()]);
  using database = openDatabase(path, [FIRST, SECOND]);
  const rows = database.prepare("SELECT count(*) AS rows FROM things GROUP BY name").all();
  expect(rows).toEqual([{ rows: 50 }, { rows: 50 }, { rows: 50 }, { rows: 50 }]);
});
