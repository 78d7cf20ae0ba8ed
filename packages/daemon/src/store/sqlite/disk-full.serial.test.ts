/** A full disk: sessions can still be read and ended, and everything works once there is space. Mounting one needs root. */
import { execFile } from "node:child_process";
import { closeSync, openSync, rmSync, statfsSync, writeSync } from "node:fs";
import { mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { promisify } from "node:util";
import { SandboxError } from "@sandkasten/protocol";
import { FENCE, MANY, execRow, sessionRow } from "@sandkasten/testkit";
import { expect, test } from "vitest";
import type { SessionStore } from "../../ports/session-store.ts";
import { DiskReserve } from "./disk-reserve.ts";
import { systemCode } from "../../system-errors.ts";
import { SqliteEventLog } from "./sqlite-event-log.ts";
import { SqliteKeyStore } from "./sqlite-key-store.ts";
import { SqliteSessionStore } from "./sqlite-session-store.ts";

const run = promisify(execFile);

/** A disk of 8 MiB with a store on it. */
class SmallDisk implements AsyncDisposable {
  readonly directory: string;
  readonly path: string;
  readonly #filler: string;
  #store: SqliteSessionStore | undefined;

  private constructor(directory: string) {
    this.directory = directory;
    this.path = join(directory, "sessions.db");
    this.#filler = join(directory, "filler");
  }

  static async mount(): Promise<SmallDisk> {
    const directory = await mkdtemp(join(tmpdir(), "sandkasten-disk-"));
    try {
      await run("mount", ["-t", "tmpfs", "-o", "size=8m,mode=0700", "none", directory]);
    } catch (error) {
      await rm(directory, { recursive: true });
      throw error;
    }
    return new SmallDisk(directory);
  }

  async open(): Promise<SqliteSessionStore> {
    this.#store?.close();
    this.#store = await SqliteSessionStore.open({ path: this.path });
    // One daemon for everything that a test does, with the token 1.
    if ((await this.#store.livingDaemon(FENCE)) === undefined)
      await this.#store.join(undefined, { bootId: "boot-1", monotonicMs: 0, wallMs: 0 });
    return this.#store;
  }

  /** Uses all remaining space, to the last block. */
  fill(): void {
    const file = openSync(this.#filler, "a");
    try {
      for (;;) writeSync(file, Buffer.alloc(4_096));
    } catch (error) {
      if (systemCode(error) !== "ENOSPC") throw error;
    } finally {
      closeSync(file);
    }
  }

  free(): void {
    rmSync(this.#filler);
  }

  freeBytes(): number {
    const { bavail, bsize } = statfsSync(this.directory);
    return bavail * bsize;
  }

  /** Closes the store and lets SQLite check every page and index. */
  integrity(): unknown {
    this.#store?.close();
    const database = new DatabaseSync(this.path);
    try {
      // With exclusive access to the file, SQLite needs no disk space to read it.
      database.exec("PRAGMA locking_mode = EXCLUSIVE");
      return database.prepare("PRAGMA integrity_check").all().map(Object.values).flat();
    } finally {
      database.close();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#store?.close();
    await run("umount", [this.directory]);
    await rm(this.directory, { recursive: true });
  }
}

async function insertSessions(store: SessionStore, count: number): Promise<string[]> {
  const rows = Array.from({ length: count }, () => sessionRow());
  for (const row of rows) await store.insertSession(row, MANY);
  return rows.map(({ id }) => id);
}

/** Inserts rows of many sizes until the disk is full; returns the inserted ids and the refusal. */
async function insertUntilFull(
  store: SessionStore,
): Promise<{ readonly ids: readonly string[]; readonly refusal: unknown }> {
  const ids: string[] = [];
  for (let i = 0; ; i++) {
    const row = sessionRow({ metadata: { large: "x".repeat((i * 997) % 30_000) } });
    try {
      await store.insertSession(row, MANY);
      ids.push(row.id);
    } catch (refusal) {
      expect(await store.getSession(row.id)).toBeUndefined();
      return { ids, refusal };
    }
  }
}

async function endAll(store: SessionStore, ids: readonly string[]): Promise<void> {
  for (const id of ids)
    expect(
      await store.updateSession(id, FENCE, ["running"], { status: "destroying" }),
    ).toBeDefined();
  for (const id of ids) {
    const patch = { status: "destroyed", endedAtMs: 5, endReason: "x".repeat(200) } as const;
    expect(await store.updateSession(id, FENCE, ["destroying"], patch)).toMatchObject(patch);
  }
}

test("a full disk refuses new rows, reads all others, ends sessions, and recovers", async () => {
  await using disk = await SmallDisk.mount();
  const store = await disk.open();
  const ids = await insertSessions(store, 100);
  const exec = execRow(ids[0]!);
  await store.insertExec(exec, FENCE, MANY);
  disk.fill();
  expect(disk.freeBytes()).toBe(0);

  // A few rows can still fit into the log.
  const { ids: late, refusal } = await insertUntilFull(store);
  expect(refusal).toBeInstanceOf(SandboxError);
  expect(refusal).toMatchObject({ code: "STORAGE_FULL" });
  expect((refusal as Error).message).not.toContain(disk.directory);
  expect(await store.getSession(ids[7]!)).toMatchObject({ status: "running" });
  expect(await store.livingSessions()).toHaveLength(100 + late.length);
  await endAll(store, [...ids, ...late]);
  await store.updateExec(exec.sessionId, exec.id, FENCE, {
    status: "done",
    endReason: "sandbox_gone",
  });

  disk.free();
  const [again] = await insertSessions(store, 1);
  const { size, blocks } = await stat(`${disk.path}.reserve`);
  expect(blocks * 512).toBeGreaterThanOrEqual(size);
  expect(disk.integrity()).toEqual(["ok"]);
  const reopened = await disk.open();
  expect((await reopened.livingSessions()).map(({ id }) => id)).toEqual([again]);
  expect(await reopened.getSession(ids[99]!)).toMatchObject({ status: "destroyed", endedAtMs: 5 });
  expect(await reopened.unfinishedExecs(FENCE)).toEqual([]);
});

test("all sessions of a disk that the store itself has filled can be ended", async () => {
  await using disk = await SmallDisk.mount();
  const store = await disk.open();
  const { ids, refusal } = await insertUntilFull(store);
  expect(refusal).toMatchObject({ code: "STORAGE_FULL" });
  expect(ids.length).toBeGreaterThan(100);
  // Space that the store did not take is taken by others.
  disk.fill();
  await endAll(store, ids);
  expect(disk.integrity()).toEqual(["ok"]);
});

test("leases are renewed on a full disk for any time, even if others have taken the reserve", async () => {
  await using disk = await SmallDisk.mount();
  const ids = await insertSessions(await disk.open(), 20);
  const store = await disk.open();
  for (let i = 0; i < 1_000; i++) {
    if (i < 3) disk.fill();
    const id = ids[i % ids.length]!;
    const patch = { leaseEndsMs: i + 0.5 };
    expect(await store.updateSession(id, FENCE, ["running"], patch)).toMatchObject(patch);
  }
  expect(await store.getSession(ids[19]!)).toMatchObject({ leaseEndsMs: 999.5 });
  expect(disk.freeBytes()).toBe(0);
  expect(disk.integrity()).toEqual(["ok"]);
});

test("a daemon that starts on a full disk finds its sessions, can end them, and creates no new ones", async () => {
  await using disk = await SmallDisk.mount();
  const before = await disk.open();
  const ids = await insertSessions(before, 50);
  before.close();
  await rm(`${disk.path}.reserve`);
  disk.fill();
  const store = await disk.open();
  expect(await store.livingSessions()).toHaveLength(50);
  await expect(store.insertSession(sessionRow(), MANY)).rejects.toMatchObject({
    code: "STORAGE_FULL",
  });
  disk.free();
  await store.insertSession(sessionRow(), MANY);
  disk.fill();
  await endAll(store, ids);
  const reopened = await disk.open();
  expect(await reopened.livingSessions()).toHaveLength(1);
  expect(disk.integrity()).toEqual(["ok"]);
});

test("a new store is refused on a full disk, and created once there is space", async () => {
  await using disk = await SmallDisk.mount();
  disk.fill();
  await expect(disk.open()).rejects.toMatchObject({ code: "STORAGE_FULL" });
  disk.free();
  expect((await disk.open()).isNew).toBe(true);
});

test("events and keys open on a full disk: a daemon that was killed can start", async () => {
  await using disk = await SmallDisk.mount();
  const open = async (): Promise<void> => {
    const events = await SqliteEventLog.open({ path: join(disk.directory, "events.db") });
    events.close();
    const keys = await SqliteKeyStore.open(join(disk.directory, "keys.db"));
    keys.close();
  };
  await open();
  disk.fill();
  await open();
});

test("the reserve determines by a write whether the disk is full", async () => {
  await using disk = await SmallDisk.mount();
  const reserve = new DiskReserve(join(disk.directory, "reserve"), 256 * 1024);
  expect(reserve.isDiskFull()).toBe(false);
  disk.fill();
  expect(reserve.isDiskFull()).toBe(true);
  expect(reserve.hold()).toBe(false);
  disk.free();
  expect(reserve.hold()).toBe(true);
  expect(disk.freeBytes()).toBe(8 * 1024 * 1024 - 256 * 1024);
  reserve.giveUp();
  expect(disk.freeBytes()).toBe(8 * 1024 * 1024);
});
