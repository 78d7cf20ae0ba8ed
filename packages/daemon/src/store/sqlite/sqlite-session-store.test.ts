/** The session store passes the suite, and as a file: who can open it, and what it survives. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, mkdir, readdir, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { FENCE, MANY, execRow, sessionRow, storeSuite } from "@sandkasten/testkit";
import { describe, expect, test } from "vitest";
import { migrate } from "./migrate.ts";
import { migrationsOf } from "../migrations.ts";
import { SqliteSessionStore } from "./sqlite-session-store.ts";
import { StoreDirectory } from "./testing/store-directory.ts";

const MIGRATIONS = migrationsOf("sqlite");

storeSuite("SQLite", async () => {
  const directory = await StoreDirectory.make();
  const store = await directory.open();
  return {
    store,
    setWallMs: () => undefined,
    reopen: () => {
      store.close();
      return directory.open();
    },
    close: () => directory[Symbol.asyncDispose](),
  };
});

/** A separate program that writes a session, changes it, reports this, and waits to be killed. */
const WRITER = `
import { SqliteSessionStore } from ${JSON.stringify(join(import.meta.dirname, "sqlite-session-store.ts"))};
const [path, session, exec] = process.argv.slice(1);
const store = await SqliteSessionStore.open({ path });
const row = JSON.parse(session);
await store.join(undefined, { bootId: "b", monotonicMs: 0, wallMs: 0 });
await store.insertSession(row, 9);
await store.insertExec(JSON.parse(exec), 1, 9);
await store.updateSession(row.id, 1, ["running"], { status: "paused", cwd: "/last" });
console.log("written");
setInterval(() => {}, 1_000_000);
`;

describe("the file", () => {
  test.each(["new", "of an earlier version"])(
    "shrinks when sessions are forgotten, in a database that is %s",
    async (kind) => {
      await using directory = await StoreDirectory.make();
      if (kind === "of an earlier version") {
        await mkdir(directory.data);
        directory.tamper((database) => {
          database.exec("PRAGMA auto_vacuum = NONE");
          migrate(database, MIGRATIONS);
        });
      }
      const store = await directory.openJoined();
      const command = "x".repeat(4000);
      for (let i = 0; i < 40; i++) {
        const row = sessionRow({ id: `ses_${i}`, status: "destroyed", endedAtMs: 5 });
        await store.insertSession(row, MANY);
        for (let n = 0; n < 50; n++)
          await store.insertExec(execRow(row.id, { command }), FENCE, MANY);
      }
      const kept = sessionRow();
      await store.insertSession(kept, MANY);
      store.close();
      const full = (await stat(directory.path)).size;
      expect(full).toBeGreaterThan(8_000_000);
      const again = await directory.open();
      expect(await again.forgetSessionsEndedBefore(6)).toHaveLength(40);
      expect((await stat(directory.path)).size).toBeLessThan(1_000_000);
      expect(await again.getSession(kept.id)).toStrictEqual(kept);
    },
  );

  test("belongs to one daemon at a time, and to the next one after a kill", async () => {
    await using directory = await StoreDirectory.make();
    const row = sessionRow();
    const exec = execRow(row.id);
    const writer = spawn(
      process.execPath,
      [
        "--disable-warning=ExperimentalWarning",
        "--input-type=module-typescript",
        "-e",
        WRITER,
        "--",
        directory.path,
        JSON.stringify(row),
        JSON.stringify(exec),
      ],
      { stdio: ["ignore", "pipe", "inherit"] },
    );
    try {
      await once(writer.stdout, "data");
      await expect(directory.open()).rejects.toMatchObject({
        code: "CONFLICT",
        message: expect.stringContaining(
          `Another daemon or program has ${directory.path} open`,
        ) as unknown,
      });
    } finally {
      const gone = once(writer, "exit");
      writer.kill("SIGKILL");
      await gone;
    }
    const store = await directory.open();
    expect(await store.getSession(row.id)).toEqual({ ...row, status: "paused", cwd: "/last" });
    expect(await store.unfinishedExecs(FENCE)).toEqual([exec]);
  });

  test("is refused to a second store that only reads, even after a restart without a write", async () => {
    await using directory = await StoreDirectory.make();
    (await directory.open()).close();
    const store = await directory.open();
    await expect(directory.open()).rejects.toMatchObject({ code: "CONFLICT" });
    store.close();
    await directory.open();
  });

  test("is accessible to its owner only, with all files beside it, even if it was not before", async () => {
    await using directory = await StoreDirectory.make();
    await (await directory.openJoined()).insertSession(sessionRow(), MANY);
    directory.closeAll();
    await chmod(directory.path, 0o644);
    const store = await directory.open();
    await store.insertSession(sessionRow(), MANY);
    const names = await readdir(directory.data);
    expect(names.sort()).toEqual(["sessions.db", "sessions.db-wal", "sessions.db.reserve"]);
    for (const name of names)
      expect((await stat(join(directory.data, name))).mode & 0o777).toBe(0o600);
    expect((await stat(directory.data)).mode & 0o777).toBe(0o700);
  });

  test("does not change the mode of an existing directory", async () => {
    await using directory = await StoreDirectory.make();
    await mkdir(directory.data);
    await chmod(directory.data, 0o755);
    await directory.open();
    expect((await stat(directory.data)).mode & 0o777).toBe(0o755);
  });

  test("counts as new if it exists but is empty", async () => {
    await using directory = await StoreDirectory.make();
    await mkdir(directory.data);
    await writeFile(directory.path, "");
    expect((await directory.open()).isNew).toBe(true);
  });

  test("stays small while the same rows change again and again", async () => {
    await using directory = await StoreDirectory.make();
    const store = await directory.openJoined();
    const row = sessionRow();
    await store.insertSession(row, MANY);
    for (let i = 0; i < 3_000; i++)
      await store.updateSession(row.id, FENCE, ["running"], { leaseEndsMs: i });
    expect((await stat(`${directory.path}-wal`)).size).toBeLessThan(5 * 1024 * 1024);
    store.close();
    expect((await stat(directory.path)).size).toBeLessThan(256 * 1024);
    expect(await readdir(directory.data)).not.toContain("sessions.db-wal");
  });

  test("does not exist for a store in memory", async () => {
    const store = await SqliteSessionStore.open({ path: ":memory:" });
    await store.join(undefined, { bootId: "boot-1", monotonicMs: 0, wallMs: 0 });
    expect(store.isNew).toBe(true);
    await store.insertSession(sessionRow({ id: "a" }), MANY);
    expect(await store.getSession("a")).toBeDefined();
    store.close();
  });
});
