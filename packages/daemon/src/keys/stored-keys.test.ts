import crypto, { hash } from "node:crypto";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { ReportedEvent } from "../events/recorder.ts";
import type { KeyStore } from "../ports/key-store.ts";
import type { Caller } from "../sessions/services/caller.ts";
import type { CreateKeyOptions } from "../sessions/services/key-service.ts";
import { ALICE, BOB, overriding } from "../sessions/testing/core-fixture.ts";
import { SqliteKeyStore } from "../store/sqlite/sqlite-key-store.ts";
import { StoredKeys } from "./stored-keys.ts";

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const DAY = 24 * 60 * MINUTE;

let directory: string;
let store: SqliteKeyStore;
let keys: StoredKeys;
let nowMs: number;
let recorded: ReportedEvent[];
beforeEach(async () => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
  directory = await mkdtemp(join(tmpdir(), "sandkasten-stored-keys-"));
  nowMs = Date.UTC(2026, 0, 1);
  recorded = [];
  await start();
});
afterEach(async () => {
  await keys.close();
  vi.useRealTimers();
  await rm(directory, { recursive: true });
});

/** As a daemon opens its file. */
async function start(seenAs: Partial<KeyStore> = {}): Promise<void> {
  store = await SqliteKeyStore.open(join(directory, "keys.db"));
  const quiet = (): void => undefined;
  const record = (event: ReportedEvent): void => void recorded.push(event);
  keys = await StoredKeys.open({
    store: overriding<KeyStore>(store, seenAs),
    clock: { nowMs: () => nowMs, monotonicMs: () => nowMs, bootId: "boot" },
    log: { info: quiet, warn: quiet, error: quiet },
    events: { record, recordNow: async (event) => record(event) },
    quotas: { maxSessions: 7, maxRunningExecs: 8, maxWorkspaces: 9, maxImageBytes: 10 },
    configured: [{ owner: "alice", scope: "admin" }],
  });
}

async function restart(seenAs: Partial<KeyStore> = {}): Promise<void> {
  await keys.close();
  await start(seenAs);
}

async function create(options: Partial<CreateKeyOptions> = {}) {
  const { key, secret } = await keys.create(ALICE, { name: "ci", scope: "use", ...options });
  return { id: key.id, secret, view: key };
}

const use = (key: string): Caller | undefined => keys.find(key, hash("sha256", key, "buffer"));

/** The interval after which the daemon reloads its keys passes. */
async function pass(ms: number): Promise<void> {
  for (const end = nowMs + ms; nowMs < end;) {
    nowMs += SECOND;
    await vi.advanceTimersByTimeAsync(SECOND);
  }
}

describe("a stored key", () => {
  it("is on the disk as a digest only, and is shown only to its creator", async () => {
    const { id, secret, view } = await create();
    use(secret);
    const digest = hash("sha256", secret);
    for (const look of ["while it is open", "after a restart"]) {
      const names = await readdir(directory);
      const files = await Promise.all(names.map((name) => readFile(join(directory, name))));
      const all = Buffer.concat(files);
      // The search finds existing text.
      expect([look, all.includes(id), all.includes(digest)]).toEqual([look, true, true]);
      expect([look, all.includes(secret.slice(-43))]).toEqual([look, false]);
      await restart();
    }
    const shown = JSON.stringify([view, await keys.list(ALICE), recorded]);
    expect(shown).toContain(id);
    expect(shown).not.toContain(secret.slice(-43));
    expect(shown).not.toContain(digest);
  });

  it("has 256 random bits, and is unique", async () => {
    const made = [await create(), await create(), await create()];
    for (const { secret } of made)
      expect(Buffer.from(secret.slice(-43), "base64url")).toHaveLength(32);
    expect(new Set(made.map(({ id }) => id)).size).toBe(3);
    expect(new Set(made.map(({ secret }) => secret.slice(-43))).size).toBe(3);
  });

  it("still belongs to its owner after a restart, with its own limits or the general ones", async () => {
    const { id, secret } = await create({ owner: "team", maxSessions: 1 });
    const expected = {
      owner: "team",
      keyId: id,
      isAdmin: false,
      maxSessions: 1,
      maxRunningExecs: 8,
      maxWorkspaces: 9,
      maxImageBytes: 10,
    };
    expect(use(secret)).toEqual(expected);
    await restart();
    expect(use(secret)).toEqual(expected);
  });

  it("has only the rights of its scope", async () => {
    const rightsOf = async (scope: "admin" | "use" | "read") => {
      const caller = use((await create({ scope })).secret);
      return [caller?.isAdmin, caller?.isReadOnly ?? false];
    };
    expect(await rightsOf("admin")).toEqual([true, false]);
    expect(await rightsOf("use")).toEqual([false, false]);
    expect(await rightsOf("read")).toEqual([false, true]);
    const options = { name: "mine", scope: "admin" } as const;
    await expect(keys.create(BOB, options)).rejects.toMatchObject({ code: "FORBIDDEN" });
    await expect(keys.list(BOB)).rejects.toMatchObject({ code: "FORBIDDEN" });
    const { id, secret } = await create();
    await expect(keys.revoke(BOB, id)).rejects.toMatchObject({ code: "FORBIDDEN" });
    expect(use(secret)).toBeDefined();
  });
});

describe("finding a key", () => {
  it("requires the format, the id and the digest together", async () => {
    const { id, secret } = await create();
    const other = await create();
    const right = hash("sha256", secret, "buffer");
    for (const wrong of [
      secret.replace("sk-sandbox-", "sk-other-"),
      secret.replace("sk-sandbox-", ""),
      ` ${secret}`,
      `${secret}\n`,
      secret.replace(id, other.id),
      secret.replace(id, "key_0000000000000000"),
      id,
      "",
    ])
      expect([wrong, keys.find(wrong, right)]).toEqual([wrong, undefined]);
    expect(keys.find(secret, hash("sha256", other.secret, "buffer"))).toBeUndefined();
    expect(keys.find(secret, right)).toBeDefined();
  });

  it("does not accept the digest that stands for no key", async () => {
    expect(keys.find(`sk-sandbox-key_${"0".repeat(16)}-`, Buffer.alloc(32))).toBeUndefined();
    expect(keys.find("", Buffer.alloc(32))).toBeUndefined();
  });

  it("compares one digest in constant time, whether the key exists or not", async () => {
    const { id, secret } = await create();
    const compare = vi.spyOn(crypto, "timingSafeEqual");
    syncBuiltinESMExports();
    try {
      const tried = [
        secret,
        `sk-sandbox-${id}-${"A".repeat(43)}`,
        `sk-sandbox-key_0000000000000000-${"A".repeat(43)}`,
        "something else",
      ];
      expect(tried.map((key) => use(key) !== undefined)).toEqual([true, false, false, false]);
      const lengths = compare.mock.calls.map((both) => both.map(({ byteLength }) => byteLength));
      expect(lengths).toEqual(tried.map(() => [32, 32]));
    } finally {
      compare.mockRestore();
      syncBuiltinESMExports();
    }
  });
});

describe("the end of a key", () => {
  it("comes with its expiry, to the millisecond, and is reported within a moment", async () => {
    const ended: string[] = [];
    keys.onEnd((id) => ended.push(id));
    const { id, secret, view } = await create({ expiresInMs: 2 * SECOND });
    expect(view.expiresAtMs).toBe(nowMs + 2 * SECOND);
    nowMs += 2 * SECOND - 1;
    expect([use(secret)?.expiresAtMs, keys.isValid(id)]).toEqual([view.expiresAtMs, true]);
    nowMs += 1;
    // Before any reload.
    expect([use(secret), keys.isValid(id), ended]).toEqual([undefined, false, []]);
    await pass(SECOND);
    expect(ended).toEqual([id]);
    await restart();
    expect([use(secret), keys.isValid(id)]).toEqual([undefined, false]);
  });

  it("comes with its revocation at once, permanently, and does not affect other keys", async () => {
    const ended: string[] = [];
    keys.onEnd((id) => ended.push(id));
    const kept = await create({ owner: "team" });
    const { id, secret } = await create({ owner: "team" });
    await keys.revoke(ALICE, id);
    await keys.revoke(ALICE, id);
    expect([use(secret), keys.isValid(id), ended]).toEqual([undefined, false, [id]]);
    expect(recorded.map(({ type }) => type)).toEqual(["key.created", "key.created", "key.revoked"]);
    await restart();
    expect(use(secret)).toBeUndefined();
    expect(use(kept.secret)).toBeDefined();
    const listed = (await keys.list(ALICE)).find((key) => key.id === id);
    expect(listed?.revokedAtMs).toBe(nowMs);
  });

  it("comes when another daemon revokes it in a shared store", async () => {
    await restart({ isShared: true });
    const ended: string[] = [];
    keys.onEnd((id) => ended.push(id));
    const { id, secret } = await create();
    await store.revoke(id, nowMs);
    await pass(SECOND);
    expect([use(secret), ended]).toEqual([undefined, [id]]);
  });

  it("persists with an outdated list, and so does the creation of another key", async () => {
    const lists: (() => void)[] = [];
    let isSlow = false;
    await restart({
      isShared: true,
      list: async () => {
        const rows = await store.list();
        if (isSlow) await new Promise<void>((resolve) => void lists.push(resolve));
        return rows;
      },
    });
    const { id } = await create();
    const ended: string[] = [];
    keys.onEnd((keyId) => ended.push(keyId));
    isSlow = true;
    await pass(SECOND);
    expect(lists).toHaveLength(1);
    await keys.revoke(ALICE, id);
    const other = await create();
    // Only now the outdated list arrives, in which one key is valid and the other does not exist.
    lists[0]?.();
    await vi.advanceTimersByTimeAsync(0);
    expect(keys.isValid(id)).toBe(false);
    expect(keys.isValid(other.id)).toBe(true);
    expect(ended).toEqual([id]);
  });

  it("is remembered for a while, and then forgotten", async () => {
    const { id } = await create();
    await keys.revoke(ALICE, id);
    const isListed = async () => (await keys.list(ALICE)).some((key) => key.id === id);
    nowMs += 90 * DAY;
    await create();
    expect(await isListed()).toBe(true);
    nowMs += 1;
    await create();
    expect(await isListed()).toBe(false);
  });
});

describe("the last use of a key", () => {
  const inStore = async () => (await store.list())[0]?.lastUsedAtMs;
  const listed = async () => (await keys.list(ALICE)).at(-1)?.lastUsedAtMs;

  it("is stored once a minute, however often the key is used", async () => {
    const { secret } = await create();
    expect(await listed()).toBeUndefined();
    const touch = vi.spyOn(store, "touch");
    for (let second = 0; second < 59; second++) {
      use(secret);
      await pass(SECOND);
    }
    expect([touch.mock.calls.length, await inStore()]).toEqual([0, undefined]);
    expect(await listed()).toBe(nowMs - SECOND);
    await pass(SECOND);
    expect([touch.mock.calls.length, await inStore()]).toEqual([1, nowMs - 2 * SECOND]);
    expect(await listed()).toBe(nowMs - 2 * SECOND);
    await pass(2 * MINUTE);
    // Nothing new, nothing to write.
    expect(touch.mock.calls.length).toBe(1);
  });

  it("is not lost when the daemon stops, and does not include refused uses", async () => {
    const { id, secret } = await create();
    const usedMs = nowMs;
    use(secret);
    nowMs += SECOND;
    use(`sk-sandbox-${id}-${"A".repeat(43)}`);
    await restart();
    expect([await inStore(), await listed()]).toEqual([usedMs, usedMs]);
  });
});
