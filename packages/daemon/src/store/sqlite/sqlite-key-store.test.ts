import { mkdtemp, open, readdir, readFile, rm, stat, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { keyRow, keyStoreSuite } from "@sandkasten/testkit";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { SqliteKeyStore } from "./sqlite-key-store.ts";

let directory: string;
let path: string;
let store: SqliteKeyStore;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "sandkasten-keys-"));
  path = join(directory, "keys.db");
  store = await SqliteKeyStore.open(path);
});
afterEach(async () => {
  store.close();
  await rm(directory, { recursive: true });
});

async function reopen(): Promise<void> {
  store.close();
  store = await SqliteKeyStore.open(path);
}

keyStoreSuite("SQLite", async () => ({
  store,
  reopen: async () => {
    await reopen();
    return store;
  },
}));

describe("the file of keys", () => {
  it("has a log beside it only for pending writes, and none at the end", async () => {
    await reopen();
    await store.insert(keyRow(1));
    expect((await readdir(directory)).toSorted()).toEqual(["keys.db", "keys.db-wal"]);
    store.close();
    expect(await readdir(directory)).toEqual(["keys.db"]);
  });

  it("can be read by the daemon's user only", async () => {
    store.close();
    await rm(path);
    await writeFile(path, "", { mode: 0o644 });
    store = await SqliteKeyStore.open(path);
    await store.insert(keyRow(1));
    const names = await readdir(directory);
    expect(names).toContain("keys.db-wal");
    for (const name of names)
      expect(`${name} ${(await stat(join(directory, name))).mode & 0o077}`).toBe(`${name} 0`);
  });

  it.each<[string, () => Promise<void>]>([
    ["is no database", async () => await writeFile(path, Buffer.alloc(8192, "no database "))],
    ["was cut off", async () => await truncate(path, 6000)],
    ["has junk in the middle", async () => await overwrite(4096, Buffer.alloc(4096, 0xa5))],
  ])("is refused and left unchanged if it %s", async (_, damage) => {
    for (let number = 1; number < 100; number++)
      await store.insert(keyRow(number, { digest: String(number).padStart(64, "0") }));
    store.close();
    await damage();
    const before = await readFile(path);
    await expect(SqliteKeyStore.open(path)).rejects.toThrow(/keys\.db is damaged\. Restore/);
    expect((await readFile(path)).equals(before)).toBe(true);
    expect((await readdir(directory)).filter((name) => /damaged/.test(name))).toEqual([]);
  });

  it("is not reported as damaged if another daemon has it open", async () => {
    await store.insert(keyRow(1));
    await expect(SqliteKeyStore.open(path)).rejects.toThrow(/locked/);
    expect(await store.list()).toHaveLength(1);
  });
});

async function overwrite(offset: number, junk: Buffer): Promise<void> {
  await using file = await open(path, "r+");
  await file.write(junk, 0, junk.length, offset);
}
