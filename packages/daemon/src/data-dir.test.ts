import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { prepareDataDir } from "./data-dir.ts";
import { SqliteSessionStore } from "./store/sqlite/sqlite-session-store.ts";

/** As the older program created it: first with Docker, then with namespaces and this data directory. */
const olderSchema = (sandbox: string): string => `CREATE TABLE sessions (
  id TEXT PRIMARY KEY, image TEXT NOT NULL, ${sandbox},
  status TEXT NOT NULL DEFAULT 'running', cwd TEXT NOT NULL DEFAULT '/workspace',
  workspace_id TEXT, created_at DATETIME, expires_at DATETIME, last_activity DATETIME
); CREATE INDEX idx_sessions_status ON sessions(status);`;

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "sandkasten-data-"));
});
afterEach(async () => {
  await rm(directory, { recursive: true, force: true });
});

const prepare = async (dataDir: string, dbPath = join(dataDir, "sandkasten.db")): Promise<void> =>
  await prepareDataDir({ dataDir, dbPath });

/** Every file with its content and the time of its last change. */
async function contentOf(root: string): Promise<unknown> {
  const names = (await readdir(root, { recursive: true })).toSorted();
  return await Promise.all(
    names.map(async (name) => {
      const { mtimeMs, mode } = await stat(join(root, name));
      const content = await readFile(join(root, name)).catch(() => undefined);
      return [name, mtimeMs, mode, content?.toString("base64")];
    }),
  );
}

describe("a data directory", () => {
  it("is created with its parents, for its owner only", async () => {
    const path = join(directory, "a/b/c");
    await prepare(path);
    expect((await stat(path)).mode & 0o777).toBe(0o700);
    expect(await readdir(path)).toEqual([]);
    await prepare(path);
  });

  it.each(["/proc/x", "/proc/x/y/z", "/proc/self/data", "/sys/x", "/dev/null", "/dev/null/x"])(
    "%s is refused at once",
    async (path) => {
      await expect(prepare(path)).rejects.toMatchObject({
        code: "INVALID_REQUEST",
        message: expect.stringContaining(`${path}`),
      });
    },
  );

  it("on a file system that is read-only is refused at once", async () => {
    const run = promisify(execFile);
    await run("mount", ["-t", "tmpfs", "-o", "ro", "tmpfs", directory]);
    try {
      await expect(prepare(directory)).rejects.toMatchObject({
        code: "INVALID_REQUEST",
        message: expect.stringContaining("EROFS"),
      });
    } finally {
      await run("umount", [directory]);
    }
  });
});

describe("a data directory of the older program", () => {
  const refused = {
    code: "CONFLICT",
    message: expect.stringMatching(/older Sandkasten .* has changed nothing.*data_dir/s),
    details: { reason: "foreign_data_dir" },
  };

  it.each([
    "container_id TEXT NOT NULL DEFAULT ''",
    "init_pid INTEGER NOT NULL DEFAULT 0, cgroup_path TEXT NOT NULL DEFAULT ''",
  ])("is recognised and left unchanged: %s", async (sandbox) => {
    const database = new DatabaseSync(join(directory, "sandkasten.db"));
    database.exec(olderSchema(sandbox));
    database.exec("INSERT INTO sessions (id, image) VALUES ('a', 'base')");
    database.close();
    await mkdir(join(directory, "workspaces/one"), { recursive: true });
    await writeFile(join(directory, "workspaces/one/file"), "kept");
    const before = await contentOf(directory);
    await expect(prepare(directory)).rejects.toMatchObject(refused);
    // Even if our own database would be elsewhere.
    await expect(prepare(directory, join(directory, "other.db"))).rejects.toMatchObject(refused);
    expect(await contentOf(directory)).toEqual(before);
  });

  it("is distinguished from a database elsewhere, which only db_path names", async () => {
    const elsewhere = join(directory, "elsewhere");
    await mkdir(elsewhere);
    const path = join(elsewhere, "sandkasten.db");
    const database = new DatabaseSync(path);
    database.exec(olderSchema("container_id TEXT NOT NULL DEFAULT ''"));
    database.close();
    await expect(prepare(join(directory, "data"), path)).rejects.toMatchObject({
      message: expect.stringMatching(`Choose another db_path, .* move ${path} away$`),
      details: { reason: "foreign_db_path" },
    });
    expect(await readdir(directory)).toEqual(["elsewhere"]);
  });

  it("is recognised while its tables are only in the log, with the program running", async () => {
    const database = new DatabaseSync(join(directory, "sandkasten.db"));
    database.exec("PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0");
    database.exec(olderSchema("container_id TEXT NOT NULL"));
    const before = await contentOf(directory);
    await expect(prepare(directory)).rejects.toMatchObject(refused);
    expect(await contentOf(directory)).toEqual(before);
    database.close();
  });

  it("is distinguished from the database of another program", async () => {
    const database = new DatabaseSync(join(directory, "sandkasten.db"));
    database.exec("CREATE TABLE bookmarks (url)");
    database.close();
    await expect(prepare(directory)).rejects.toMatchObject({
      code: "CONFLICT",
      message: expect.stringContaining("another program"),
    });
  });

  it.each([
    [1, "CREATE TABLE sessions (id, owner, status, token)"],
    [5, "CREATE TABLE sessions (id, image, status, container_id); CREATE TABLE execs (id)"],
    [9, "CREATE TABLE bookmarks (url)"],
    [20_240_101, "CREATE TABLE sessions (id, owner, status)"],
  ])("is distinguished from one of another program with version %i", async (version, schema) => {
    const database = new DatabaseSync(join(directory, "sandkasten.db"));
    database.exec(`${schema}; PRAGMA user_version = ${version}`);
    database.close();
    const before = await contentOf(directory);
    await expect(prepare(directory)).rejects.toMatchObject({
      code: "CONFLICT",
      message: expect.stringContaining("another program"),
    });
    await expect(
      SqliteSessionStore.open({ path: join(directory, "sandkasten.db") }),
    ).rejects.toThrow("another program's database. Nothing was changed");
    expect(await contentOf(directory)).toEqual(before);
  });

  it("is recognised by its images if its database is gone", async () => {
    await mkdir(join(directory, "images/python/rootfs"), { recursive: true, mode: 0o755 });
    const before = await contentOf(directory);
    await expect(prepare(directory)).rejects.toMatchObject({
      code: "CONFLICT",
      message: expect.stringMatching(/images .*another program.* has changed nothing/),
      details: { reason: "foreign_data_dir" },
    });
    expect(await contentOf(directory)).toEqual(before);
  });

  it.each([
    [[]],
    [["references"]],
    [["references", "notes"]],
    [["lost+found"]],
    [["a".repeat(64), "tmp-1-2-x"]],
  ])("is distinguished from one of ours with images but no database: %j", async (names) => {
    await mkdir(join(directory, "images"));
    for (const name of names) await mkdir(join(directory, "images", name));
    await prepare(directory);
  });

  it("is distinguished from one of ours, even after a kill, and from an empty one", async () => {
    await writeFile(join(directory, "sandkasten.db"), "");
    await prepare(directory);
    const path = join(directory, "ours.db");
    const store = await SqliteSessionStore.open({ path });
    await prepare(directory, path);
    store.close();
    await prepare(directory, path);
  });
});
