/** Databases of every earlier version, of newer ones and of other programs. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { cp, mkdir, readFile } from "node:fs/promises";
import { DatabaseSync } from "node:sqlite";
import { sessionRow } from "@sandkasten/testkit";
import { describe, expect, test } from "vitest";
import { migrate, schemaVersion } from "./migrate.ts";
import { migrationsOf } from "../migrations.ts";
import { StoreDirectory } from "./testing/store-directory.ts";

const MIGRATIONS = migrationsOf("sqlite");

const FIRST_DESIGN_ROWS = `
  INSERT INTO sessions VALUES
    ('old-1', 'sandbox-runtime:python', 'c0ffee', 'running', '/workspace/a',
     '2026-02-01T10:00:00Z', '2026-02-01T10:40:00.250Z', '2026-02-01T10:10:00Z'),
    ('old-2', 'sandbox-runtime:base', 'decaf', 'expired', '/workspace',
     '2026-02-01 10:00:00.5+01:00', '2026-02-01 10:30:00+01:00', '2026-02-01 10:00:00+01:00'),
    ('old-3', 'sandbox-runtime:node', 'facade', 'destroyed', '/workspace',
     '2026-02-01 10:00:00.123456 +0000 UTC', '2026-02-01 10:30:00 +0000 UTC', '2026-02-01 10:05:00 +0000 UTC');
`;

/** Rows that each version wrote, in that version's format. */
const ROWS: Readonly<Record<number, string>> = {
  1: FIRST_DESIGN_ROWS,
  2: `
    INSERT INTO sessions VALUES
      ('ses_2', 'alice', 'running', 'user:u:default', 'python', 'host', 'sha256:00', 'sbx_2', 'root',
       '{"memoryBytes":1,"cpuMillicores":2,"pids":3,"diskBytes":4,"diskInodes":5}', '{"team":"x"}',
       'notes', 'pool', '/tmp', 1000, 1, 2, NULL, NULL, 'boot', 3.5, 4.5, 'k', 'h');
    INSERT INTO execs VALUES
      ('exe_2', 'ses_2', 'alice', 'done', 'process', '["true"]', 5, 6, 0, NULL, 'exited', NULL, 1.5,
       7, 8, 9, 1, 'k', 'h');
    INSERT INTO workspaces VALUES ('notes', 'alice', 'wsp_2', 10, 11);
  `,
  3: `
    INSERT INTO sessions VALUES
      ('ses_3', 'alice', 'paused', NULL, 'python', 'python:3.11-slim', NULL, 'sbx_3', 'restricted',
       '{"memoryBytes":1,"cpuMillicores":2,"pids":3,"diskBytes":4,"diskInodes":5}', '{}',
       NULL, 'cold', '/workspace', 1000, 1, 2, NULL, NULL, 'boot', 3.5, 4.5, NULL, NULL, 'docker');
    INSERT INTO execs VALUES
      ('exe_3', 'ses_3', 'alice', 'running', 'shell', '"sleep 9"', 5, NULL, NULL, NULL, NULL, NULL,
       NULL, 0, 0, 0, 0, NULL, NULL);
    INSERT INTO workspaces VALUES ('notes', 'alice', 'wsp_3', 10, 11, 'docker');
  `,
  4: `
    INSERT INTO sessions VALUES
      ('ses_4', 'alice', 'running', NULL, 'python', 'host', NULL, 'sbx_4', 'restricted',
       '{"memoryBytes":1,"cpuMillicores":2,"pids":3,"diskBytes":4,"diskInodes":5}', '{}',
       NULL, 'cold', '/workspace', 1000, 1, 2, NULL, NULL, 'boot', 3.5, 4.5, NULL, NULL, 'oci');
    INSERT INTO execs VALUES
      ('exe_4', 'ses_4', 'alice', 'running', 'shell', '"sleep 9"', 5, NULL, NULL, NULL, NULL, NULL,
       NULL, 0, 0, 0, 0, 'k', 'h');
  `,
  5: `
    INSERT INTO sessions VALUES
      ('ses_5', 'alice', 'running', NULL, 'python', 'host', NULL, 'sbx_5', 'restricted',
       '{"memoryBytes":1,"cpuMillicores":2,"pids":3,"diskBytes":4,"diskInodes":5}', '{}',
       NULL, 'cold', '/workspace', 1000, 1, 2, NULL, NULL, 'boot', 3.5, 4.5, NULL, NULL, 'docker',
       'full');
  `,
  6: `
    INSERT INTO sessions VALUES
      ('ses_6', 'alice', 'running', NULL, 'python', 'host', NULL, 'sbx_6', 'restricted',
       '{"memoryBytes":1,"cpuMillicores":2,"pids":3,"diskBytes":4,"diskInodes":5}', '{}',
       NULL, 'cold', '/workspace', 1000, 1, 2, NULL, NULL, 'boot', 3.5, 4.5, NULL, NULL, 'oci',
       'none');
    INSERT INTO execs VALUES
      ('exe_6', 'ses_6', 'alice', 'running', 'shell', '"sleep 9"', 5, NULL, NULL, NULL, NULL, NULL,
       NULL, 0, 0, 0, 0, 'k', 'h', 3600000, 1, 'build', 0, 0);
  `,
  7: `
    INSERT INTO sessions VALUES
      ('ses_7', 'alice', 'running', NULL, 'python', 'host', NULL, 'sbx_7', 'restricted',
       '{"memoryBytes":1,"cpuMillicores":2,"pids":3,"diskBytes":4,"diskInodes":5}', '{}',
       NULL, 'cold', '/workspace', 1000, 1, 2, NULL, NULL, 'boot', 3.5, 4.5, NULL, NULL, 'oci',
       'none');
    INSERT INTO execs VALUES
      ('exe_7', 'ses_7', 'alice', 'queued', 'shell', '"sleep 9"', 5, NULL, NULL, NULL, NULL, NULL,
       NULL, 0, 0, 0, 0, 'k', 'h', 3600000, 1, 'build', 0, 0, '{"command":{}}');
  `,
  8: `
    INSERT INTO sessions VALUES
      ('ses_8', 'alice', 'running', NULL, 'python', 'host', NULL, 'sbx_8', 'restricted',
       '{"memoryBytes":1,"cpuMillicores":2,"pids":3,"diskBytes":4,"diskInodes":5}', '{}',
       NULL, 'cold', '/workspace', 1000, 1, 2, NULL, NULL, 'boot', 3.5, 4.5, NULL, NULL, 'oci',
       'none'),
      ('ses_9', 'alice', 'destroyed', NULL, 'python', 'host', NULL, 'sbx_8', 'restricted',
       '{"memoryBytes":1,"cpuMillicores":2,"pids":3,"diskBytes":4,"diskInodes":5}', '{}',
       NULL, 'cold', '/workspace', 1000, 2, 2, NULL, NULL, 'boot', 3.5, 4.5, NULL, NULL, 'oci',
       'none');
  `,
  9: `
    INSERT INTO sessions VALUES
      ('ses_10', 'alice', 'running', NULL, 'python', 'host', NULL, 'sbx_9', 'restricted',
       '{"memoryBytes":1,"cpuMillicores":2,"pids":3,"diskBytes":4,"diskInodes":5}', '{}',
       NULL, 'cold', '/workspace', 1000, 1, 2, NULL, NULL, 'boot', 3.5, 4.5, NULL, NULL, 'oci',
       'none', 'strong');
  `,
  10: `
    INSERT INTO sessions VALUES
      ('ses_11', 'alice', 'running', NULL, 'python', 'host', NULL, 'sbx_10', 'restricted',
       '{"memoryBytes":1,"cpuMillicores":2,"pids":3,"diskBytes":4,"diskInodes":5}', '{}',
       NULL, 'cold', '/workspace', 1000, 1, 2, NULL, NULL, 'boot', 3.5, 4.5, NULL, NULL, 'oci',
       'none', 'standard', '[{"id":"data","path":"/mnt","readOnly":true}]');
  `,
  11: `
    INSERT INTO daemons VALUES (7, 'http://10.0.0.1:8080', 'boot', 100, 200, 300, 0);
    INSERT INTO sessions (
      id, owner, status, requested_image, image, sandbox_id, profile, limits, metadata, acquire_source,
      cwd, ttl_ms, created_at_ms, last_activity_at_ms, lease_ends_ms, lifetime_ends_ms, backend,
      network, isolation, workspaces, fence, place)
    VALUES
      ('ses_12', 'alice', 'running', 'python', 'host', 'sbx_11', 'restricted',
       '{"memoryBytes":1,"cpuMillicores":2,"pids":3,"diskBytes":4,"diskInodes":5}', '{}', 'cold',
       '/workspace', 1000, 1, 2, 1300, 4.5, 'oci', 'none', 'standard', '[]', 7, 'oci:here');
    INSERT INTO side_sandboxes VALUES ('sbx_12', 7, 'oci:here', 'pool');
  `,
  15: `
    INSERT INTO workspaces (
      id, owner, disk_id, created_at_ms, last_used_at_ms, backend, place, ending_fence)
    VALUES ('data', 'alice', 'wsp_data', 1, 2, 'oci', 'oci:here', 7);
    `,
  16: `
    INSERT INTO execs (
      id, session_id, owner, status, mode, command, started_at_ms, stdout_bytes, stderr_bytes,
      dropped_bytes, shell_restarted)
    VALUES ('exe_16', 'ses_12', 'alice', 'running', 'shell', '"sleep 9"', 5, 0, 0, 0, 0);
  `,
};

async function databaseOf(version: number, rows = ROWS[version] ?? ""): Promise<StoreDirectory> {
  const directory = await StoreDirectory.make();
  await mkdir(directory.data);
  directory.tamper((database) => {
    const steps = MIGRATIONS.filter((step) => step.version <= version);
    migrate(database, steps);
    database.exec(rows);
  });
  return directory;
}

function schemaOf(directory: StoreDirectory): unknown[] {
  let schema: unknown[] = [];
  directory.tamper((database) => {
    expect(schemaVersion(database)).toBe(MIGRATIONS.at(-1)?.version);
    expect(database.prepare("PRAGMA foreign_key_check").all()).toEqual([]);
    schema = database.prepare("SELECT name, sql FROM sqlite_schema ORDER BY name").all();
  });
  return schema;
}

async function expectFirstDesign(directory: StoreDirectory): Promise<void> {
  const before = Date.now();
  const store = await directory.open();
  expect(store.isNew).toBe(false);
  expect(await store.livingSessions()).toEqual([]);
  const at = (time: string): number => Date.parse(`2026-02-01T${time}Z`);
  expect(await store.getSession("old-1")).toMatchObject({
    owner: "default",
    status: "crashed",
    requestedImage: "sandbox-runtime:python",
    image: "sandbox-runtime:python",
    cwd: "/workspace/a",
    createdAtMs: at("10:00:00"),
    lastActivityAtMs: at("10:10:00"),
    ttlMs: 30 * 60_000 + 250,
    endReason: expect.stringContaining("c0ffee") as unknown,
  });
  expect((await store.getSession("old-1"))?.endedAtMs).toBeGreaterThanOrEqual(before);
  expect(await store.getSession("old-2")).toMatchObject({
    status: "expired",
    createdAtMs: at("09:00:00.500"),
    endedAtMs: at("09:30:00"),
  });
  expect(await store.getSession("old-3")).toMatchObject({
    status: "destroyed",
    createdAtMs: at("10:00:00"),
    endedAtMs: at("10:05:00"),
  });
  expect((await store.listSessions({ owner: "default", limit: 10 })).rows).toHaveLength(3);
}

async function expectVersion2(directory: StoreDirectory): Promise<void> {
  const store = await directory.open();
  expect(await store.findByKey("alice", "user:u:default")).toEqual({
    ...sessionRow({ id: "ses_2", key: "user:u:default", imageDigest: "sha256:00" }),
    sandboxId: "sbx_2",
    profile: "root",
    limits: { memoryBytes: 1, cpuMillicores: 2, pids: 3, diskBytes: 4, diskInodes: 5 },
    metadata: { team: "x" },
    workspaceId: "notes",
    acquireSource: "pool",
    cwd: "/tmp",
    ttlMs: 1000,
    createdAtMs: 1,
    lastActivityAtMs: 2,
    fence: 0,
    place: "",
    leaseEndsMs: 3.5,
    lifetimeEndsMs: 4.5,
    idempotencyKey: "k",
    requestHash: "h",
  });
  expect(await store.getExec("ses_2", "exe_2")).toEqual({
    id: "exe_2",
    sessionId: "ses_2",
    owner: "alice",
    status: "done",
    mode: "process",
    command: ["true"],
    startedAtMs: 5,
    endedAtMs: 6,
    exitCode: 0,
    endReason: "exited",
    durationMs: 1.5,
    stdoutBytes: 7,
    stderrBytes: 8,
    droppedBytes: 9,
    shellRestarted: true,
    background: false,
    backgroundBytes: 0,
    timeoutClamped: false,
    idempotencyKey: "k",
    requestHash: "h",
  });
  expect(await store.allWorkspaces()).toEqual([
    {
      id: "notes",
      owner: "alice",
      backend: "oci",
      place: "",
      diskId: "wsp_2",
      createdAtMs: 10,
      lastUsedAtMs: 11,
    },
  ]);
}

async function expectVersion3(directory: StoreDirectory): Promise<void> {
  const store = await directory.open();
  expect(await store.getSession("ses_3")).toMatchObject({ status: "paused", backend: "docker" });
  expect(await store.getWorkspace("alice", "notes")).toMatchObject({ backend: "docker" });
  expect(await store.unfinishedExecs(0)).toMatchObject([{ id: "exe_3", command: "sleep 9" }]);
}

async function expectVersion4(directory: StoreDirectory): Promise<void> {
  const store = await directory.open();
  expect(await store.findExec("ses_4", "k")).toMatchObject({ id: "exe_4", status: "running" });
  expect(await store.getSession("ses_4")).toMatchObject({ network: "none" });
}

async function expectVersion5(directory: StoreDirectory): Promise<void> {
  const store = await directory.open();
  expect(await store.getSession("ses_5")).toMatchObject({ network: "engine" });
}

async function expectVersion6(directory: StoreDirectory): Promise<void> {
  const store = await directory.open();
  expect(await store.getExec("ses_6", "exe_6")).toMatchObject({
    shell: "build",
    timeoutMs: 3_600_000,
    timeoutClamped: true,
  });
}

async function expectVersion7(directory: StoreDirectory): Promise<void> {
  const store = await directory.open();
  expect(await store.getExec("ses_7", "exe_7")).toMatchObject({ request: '{"command":{}}' });
}

async function expectVersion8(directory: StoreDirectory): Promise<void> {
  const store = await directory.open();
  const { rows } = await store.listSessions({ owner: "alice", limit: 2 });
  expect(rows.map(({ id }) => id)).toEqual(["ses_8", "ses_9"]);
}

async function expectVersion9(directory: StoreDirectory): Promise<void> {
  const store = await directory.open();
  expect(await store.getSession("ses_10")).toMatchObject({ isolation: "strong", workspaces: [] });
}

async function expectVersion10(directory: StoreDirectory): Promise<void> {
  const store = await directory.open();
  expect(await store.getSession("ses_11")).toMatchObject({
    workspaces: [{ id: "data", path: "/mnt", readOnly: true }],
  });
}

async function expectVersion11(directory: StoreDirectory): Promise<void> {
  const store = await directory.open();
  expect(await store.getSession("ses_12")).toMatchObject({ fence: 7, place: "oci:here" });
  expect(await store.livingDaemon(7)).toEqual({ fence: 7, address: "http://10.0.0.1:8080" });
  expect(await store.sandboxesAt("oci:here")).toEqual(new Set(["sbx_11", "sbx_12"]));
}

async function expectVersion15(directory: StoreDirectory): Promise<void> {
  const store = await directory.open();
  expect(await store.getWorkspace("alice", "data")).toMatchObject({ endingFence: 7 });
}

describe("leases of a version that counted the time since boot", () => {
  const rows = `
    INSERT INTO sessions VALUES
      ('ses_now', 'alice', 'running', NULL, 'python', 'host', NULL, 'sbx_1', 'restricted',
       '{"memoryBytes":1,"cpuMillicores":2,"pids":3,"diskBytes":4,"diskInodes":5}', '{}',
       NULL, 'cold', '/workspace', 1000, 1, 5000, NULL, NULL, 'boot-2', 61000, 90000, NULL, NULL,
       'oci', 'none', 'standard', '[]'),
      ('ses_before', 'alice', 'running', NULL, 'python', 'host', NULL, 'sbx_2', 'restricted',
       '{"memoryBytes":1,"cpuMillicores":2,"pids":3,"diskBytes":4,"diskInodes":5}', '{}',
       NULL, 'cold', '/workspace', 1000, 1, 4000, NULL, NULL, 'boot-1', 8000000, 9000000, NULL, NULL,
       'oci', 'none', 'standard', '[]');
  `;

  test.each([
    ["hold within the boot", { bootId: "boot-2", monotonicMs: 60_500, wallMs: 1 }, 60_500],
    ["go on after a reboot", { bootId: "boot-3", monotonicMs: 10, wallMs: 5700 }, 60_700],
  ])("%s, and those of an earlier boot have ended", async (_, reading, storeMs) => {
    await using directory = await databaseOf(10, rows);
    const store = await directory.open();
    expect(await store.getSession("ses_now")).toMatchObject({ leaseEndsMs: 61_000 });
    expect(await store.getSession("ses_before")).toMatchObject({ leaseEndsMs: 0 });
    expect((await store.join(undefined, reading)).storeMs).toBe(storeMs);
  });
});

describe("a database of an earlier version", () => {
  test("has rows here for every version that existed", () => {
    const versions = MIGRATIONS.map(({ version }) => version);
    expect(versions).toEqual(versions.toSorted((a, b) => a - b));
    expect(Object.keys(ROWS).map(Number)).toEqual(versions);
  });

  test.each([
    [1, expectFirstDesign],
    [2, expectVersion2],
    [3, expectVersion3],
    [4, expectVersion4],
    [5, expectVersion5],
    [6, expectVersion6],
    [7, expectVersion7],
    [8, expectVersion8],
    [9, expectVersion9],
    [10, expectVersion10],
    [11, expectVersion11],
    [15, expectVersion15],
  ])("%i is migrated to the newest version with its data", async (version, expectRows) => {
    await using directory = await databaseOf(version);
    await expectRows(directory);
    await using fresh = await StoreDirectory.make();
    await fresh.open();
    expect(schemaOf(directory)).toEqual(schemaOf(fresh));
  });

  test("without a version is another program's, and left alone", async () => {
    await using directory = await databaseOf(1);
    directory.tamper((database) => database.exec("PRAGMA user_version = 0"));
    const before = await readFile(directory.path);
    await expect(directory.open()).rejects.toThrow(
      /another program's database. Nothing was changed/,
    );
    expect(before.equals(await readFile(directory.path))).toBe(true);
  });

  test("is migrated even if its last transaction was interrupted", async () => {
    await using directory = await databaseOf(1);
    await using cut = await StoreDirectory.make();
    directory.tamper((database) => {
      const insert = database.prepare(
        "INSERT INTO sessions SELECT ?, image, container_id, status, cwd, created_at, expires_at, last_activity FROM sessions WHERE id = 'old-1'",
      );
      // With space for a few pages only, the transaction reaches the file before it is committed.
      database.exec("PRAGMA cache_size = 2; BEGIN");
      for (let i = 0; i < 500; i++) insert.run(`uncommitted-${String(i)}`);
    });
    await cp(directory.data, cut.data, { recursive: true });
    await expectFirstDesign(cut);
  });
});

describe("an interrupted migration", () => {
  test("keeps the earlier version and the rows if a step fails", async () => {
    await using directory = await databaseOf(2);
    const broken = {
      version: 3,
      name: "a broken step",
      sql: "CREATE TABLE half (a); DELETE FROM execs; DROP TABLE workspaces; INSERT INTO nowhere VALUES (1);",
    };
    directory.tamper((database) => {
      expect(() => migrate(database, [...MIGRATIONS, broken])).toThrow(
        /to version 3 \(a broken step\): .*nowhere.* was rolled back/,
      );
    });
    await expectVersion2(directory);
    await using fresh = await StoreDirectory.make();
    await fresh.open();
    expect(schemaOf(directory)).toEqual(schemaOf(fresh));
  });

  test("starts again if the process was killed in the middle", async () => {
    await using directory = await databaseOf(1);
    const killed = `
      const { DatabaseSync } = require("node:sqlite");
      const [path, sql] = process.argv.slice(1);
      const database = new DatabaseSync(path);
      database.exec("PRAGMA cache_size = 2; BEGIN IMMEDIATE");
      database.exec(sql);
      database.exec("PRAGMA user_version = 2");
      process.kill(process.pid, "SIGKILL");
    `;
    const child = spawn(
      process.execPath,
      ["-e", killed, "--", directory.path, MIGRATIONS[1]?.sql ?? ""],
      { stdio: ["ignore", "ignore", "inherit"] },
    );
    expect((await once(child, "exit"))[1]).toBe("SIGKILL");
    await expectFirstDesign(directory);
  });
});

describe("a database of another kind", () => {
  test.each([
    [
      "of a newer version",
      `PRAGMA user_version = ${(MIGRATIONS.at(-1)?.version ?? 0) + 1}`,
      /newer version .*version 17.*up to 16/,
    ],
    ["of another program", "DROP TABLE sessions; CREATE TABLE bookmarks (url)", /another program/],
    ["of another program without a table of ours", "DROP TABLE execs", /another program/],
  ])("is refused and left alone when it is %s", async (_, sql, message) => {
    await using directory = await databaseOf(MIGRATIONS.at(-1)?.version ?? 0, "");
    directory.tamper((database) => database.exec(sql));
    const before = await readFile(directory.path);
    await expect(directory.open()).rejects.toMatchObject({
      code: "INTERNAL_ERROR",
      message: expect.stringMatching(message) as unknown,
    });
    expect(before.equals(await readFile(directory.path))).toBe(true);
    new DatabaseSync(directory.path).close();
  });
});
