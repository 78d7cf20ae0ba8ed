/** The key store passes the suite, and what only a store shared by several daemons must handle. */
import { keyRow, keyStoreSuite } from "@sandkasten/testkit";
import { afterAll, afterEach, beforeAll, beforeEach, expect, it, vi } from "vitest";
import { TestDatabase } from "../../../../../tests/support/postgres-under-test.ts";
import { StoredKeys } from "../../keys/stored-keys.ts";
import { systemClock } from "../../system-clock.ts";
import { PostgresKeyStore } from "./postgres-key-store.ts";
import { PostgresSessionStore } from "./postgres-session-store.ts";

const QUOTAS = { maxSessions: 1, maxRunningExecs: 1, maxWorkspaces: 1, maxImageBytes: 1 };
const ADMIN = { owner: "admin", isAdmin: true, ...QUOTAS };
const quiet = { info: () => undefined, warn: () => undefined, error: () => undefined };

let database: TestDatabase;
const opened: PostgresSessionStore[] = [];

/** With separate connections, as in a separate process. */
async function open(): Promise<PostgresKeyStore> {
  const store = await PostgresSessionStore.open({ url: database.url });
  opened.push(store);
  return new PostgresKeyStore(store.database);
}

async function closeAll(): Promise<void> {
  for (const store of opened.splice(0)) await store.closed();
}

beforeAll(async () => {
  database = await TestDatabase.make();
  await open();
  await closeAll();
});
beforeEach(() => database.empty());
afterEach(closeAll);
afterAll(() => database[Symbol.asyncDispose]());

keyStoreSuite("Postgres", async () => ({
  store: await open(),
  reopen: async () => {
    await closeAll();
    return await open();
  },
}));

it("waits for the disk before it reports that a key is revoked", async () => {
  const store = await open();
  await database.query(`
    CREATE TABLE commits (mode TEXT);
    CREATE FUNCTION note_commit() RETURNS TRIGGER LANGUAGE plpgsql AS $$
    BEGIN INSERT INTO commits VALUES (current_setting('synchronous_commit')); RETURN NEW; END $$;
    CREATE TRIGGER noted AFTER INSERT OR UPDATE ON keys FOR EACH ROW EXECUTE FUNCTION note_commit();
  `);
  await store.insert(keyRow(1));
  await store.revoke("key_1", 10);
  const modes = await database.query("SELECT mode FROM commits");
  await database.query("DROP TRIGGER noted ON keys");
  expect(modes).toEqual([{ mode: "on" }, { mode: "on" }]);
});

it("shows every daemon a key that one of them creates or revokes", async () => {
  const daemon = async (): Promise<StoredKeys> =>
    await StoredKeys.open({
      store: await open(),
      clock: systemClock(),
      log: quiet,
      events: { record: () => undefined, recordNow: () => Promise.resolve() },
      quotas: QUOTAS,
      configured: [],
    });
  const [first, second] = [await daemon(), await daemon()];
  try {
    const { key } = await first.create(ADMIN, { name: "new", scope: "use" });
    expect(first.isValid(key.id)).toBe(true);
    await vi.waitUntil(() => second.isValid(key.id), { timeout: 20_000 });
    const ended: string[] = [];
    first.onEnd((id) => ended.push(id));
    await second.revoke(ADMIN, key.id);
    expect(second.isValid(key.id)).toBe(false);
    await vi.waitUntil(() => !first.isValid(key.id), { timeout: 20_000 });
    expect(ended).toEqual([key.id]);
  } finally {
    await first.close();
    await second.close();
  }
});
