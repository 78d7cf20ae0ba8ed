/** The session store passes the suite, and what only a database shared by several daemons must handle. */
import { execRow, MANY, sessionRow, storeSuite, workspaceRow } from "@sandkasten/testkit";
import pg from "pg";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { TestDatabase } from "../../../../../tests/support/postgres-under-test.ts";
import { execMapping } from "../row-mappings.ts";
import { SIDE_BY_SIDE } from "./functions.ts";
import { PostgresSessionStore } from "./postgres-session-store.ts";

const READING = { bootId: "boot-1", monotonicMs: 1000, wallMs: 0 };
const HEARTBEAT = { intervalMs: 10, deadAfterMs: 5000 };
const PLACE = "oci:here";
const moved = { details: { reason: "moved" } };

/** One database for all tests here, emptied before each, because creating one is slow. */
let database: TestDatabase;
let wallMs: number;
const opened: PostgresSessionStore[] = [];

async function open(): Promise<PostgresSessionStore> {
  const store = await PostgresSessionStore.open({
    url: database.url,
    heartbeat: HEARTBEAT,
    wallMs: () => wallMs,
  });
  opened.push(store);
  return store;
}

async function closeAll(): Promise<void> {
  for (const store of opened.splice(0)) await store.closed();
}

beforeAll(async () => {
  database = await TestDatabase.make();
  await open();
  await closeAll();
});
beforeEach(async () => {
  wallMs = 1_790_000_000_000;
  await database.empty();
});
afterEach(closeAll);
afterAll(() => database[Symbol.asyncDispose]());

storeSuite("Postgres", async () => {
  const store = await open();
  return {
    store,
    setWallMs: (ms) => {
      wallMs = ms;
    },
    reopen: async () => {
      await store.closed();
      return await open();
    },
    close: closeAll,
  };
});

describe("two daemons", () => {
  /** Each with separate connections, as in two processes. */
  async function two() {
    const [first, second] = [await open(), await open()];
    const a = (await first.join("http://10.0.0.1:8080", READING)).fence;
    const b = (await second.join("http://10.0.0.2:8080", READING)).fence;
    return { first, second, a, b };
  }

  test("leave each other's sessions alone while both are alive", async () => {
    const { first, second, a, b } = await two();
    await first.insertSession(sessionRow({ id: "s", fence: a }), MANY);
    await second.beat(b, 4000, READING);
    expect(await first.beat(a, 3000, READING)).toBe(4000);
    await second.beat(b, 8900, READING);
    expect(await second.claim(b, [PLACE])).toEqual({ sessions: [] });
    expect(await first.updateSession("s", a, ["running"], { cwd: "/mine" })).toBeDefined();
  });

  test("do not destroy the same workspace, and the second completes it for a dead one", async () => {
    const { first, second, a, b } = await two();
    const row = workspaceRow();
    await first.insertWorkspace(row, MANY);
    expect(await first.endWorkspace(row.diskId, a)).toBe("begun");
    expect(await second.endWorkspace(row.diskId, b)).toBeUndefined();
    await second.keepWorkspace(row.diskId, b);
    expect(await second.touchWorkspace(row.diskId, 1)).toBe(false);
    await second.beat(b, 6000, READING);
    await second.claim(b, [PLACE]);
    expect(await second.endWorkspace(row.diskId, b)).toBe("inherited");
    expect(await first.endWorkspace(row.diskId, a)).toBeUndefined();
    await first.keepWorkspace(row.diskId, a);
    expect(await second.getWorkspace(row.owner, row.id)).toMatchObject({ endingFence: b });
  });

  test("a daemon that was silent for too long is declared dead, and learns of it", async () => {
    const { first, second, a, b } = await two();
    await first.insertSession(sessionRow({ id: "s", fence: a }), MANY);
    await second.beat(b, 6000, READING);
    expect(await second.claim(b, ["docker:elsewhere"])).toEqual({ sessions: [] });
    expect(await second.claim(b, [PLACE])).toMatchObject({ sessions: [{ id: "s", fence: b }] });
    expect(await first.beat(a, 6000, READING)).toBeUndefined();
    expect(await first.livingDaemon(a)).toBeUndefined();
    expect(await first.updateSession("s", a, ["running"], { cwd: "/late" })).toBeUndefined();
    await expect(first.insertExec(execRow("s"), a, MANY)).rejects.toMatchObject(moved);
    await expect(
      first.insertSession(sessionRow({ id: "new", fence: a }), MANY),
    ).rejects.toMatchObject(moved);
    // It joins with a new token, and gets what no other daemon could reach.
    const again = await first.join("http://10.0.0.1:8080", READING);
    expect(again.fence).toBeGreaterThan(b);
  });

  test("sandboxes get a greater number at each change, whichever token is greater", async () => {
    const { first, second, a, b } = await two();
    await second.insertSession(sessionRow({ id: "s", fence: b }), MANY);
    await second.leave(b);
    const { sandboxFence: byFirst = 0 } = await first.claim(a, [PLACE]);
    expect(byFirst).toBeGreaterThan(b);
    await first.leave(a);
    const c = (await second.join(undefined, READING)).fence;
    const { sandboxFence: bySecond = 0 } = await second.claim(c, [PLACE]);
    expect(bySecond).toBeGreaterThan(byFirst);
    expect(bySecond).toBeGreaterThan(c);
  });

  test("what only the dead one could reach waits for it", async () => {
    const { first, second, a, b } = await two();
    const far = sessionRow({ id: "s", fence: a, place: "oci:there" });
    await first.insertSession(far, MANY);
    await first.leave(a);
    expect(await second.claim(b, [PLACE])).toEqual({ sessions: [] });
    const again = await first.join(undefined, READING);
    expect(await first.claim(again.fence, ["oci:there"])).toMatchObject({
      sessions: [{ id: "s" }],
    });
  });

  test("both claim at once, and each session goes to one of them", async () => {
    const { first, second, a, b } = await two();
    const third = await (await open()).join(undefined, READING);
    const rows = Array.from({ length: 20 }, () => sessionRow({ fence: third.fence }));
    for (const row of rows) await first.insertSession(row, MANY);
    await first.leave(third.fence);
    const claimed = await Promise.all([first.claim(a, [PLACE]), second.claim(b, [PLACE])]);
    expect(
      claimed
        .flatMap(({ sessions }) => sessions)
        .map(({ id }) => id)
        .toSorted(),
    ).toEqual(rows.map(({ id }) => id).toSorted());
  });

  test("a daemon that claims is alive, however late its last heartbeat was", async () => {
    const { first, second, a, b } = await two();
    await first.insertSession(sessionRow({ id: "s", fence: a }), MANY);
    await second.beat(b, 2 * HEARTBEAT.deadAfterMs, READING);
    expect(await first.claim(a, [PLACE])).toEqual({ sessions: [] });
    expect(await first.livingDaemon(a)).toBeDefined();
  });

  test("a command that is being added is complete before a claim, or refused", async () => {
    const { first, second, a, b } = await two();
    await first.insertSession(sessionRow({ id: "s", fence: a }), MANY);
    await first.leave(a);
    const adds = Array.from({ length: 30 }, (_, at) =>
      first.insertExec(execRow("s", { id: `exe_${at}`, status: "running" }), a, MANY).then(
        () => `exe_${at}`,
        () => undefined,
      ),
    );
    await second.claim(b, [PLACE]);
    const seen = (await second.unfinishedExecs(b)).map(({ id }) => id);
    const added = (await Promise.all(adds)).filter((id) => id !== undefined);
    expect(added.toSorted()).toEqual(seen.toSorted());
  });

  test("quotas count the sessions and commands of both", async () => {
    const { first, second, a, b } = await two();
    const answers = await Promise.all([
      ...Array.from({ length: 10 }, () => first.insertSession(sessionRow({ fence: a }), 6)),
      ...Array.from({ length: 10 }, () => second.insertSession(sessionRow({ fence: b }), 6)),
    ]);
    expect(answers.filter(({ inserted }) => inserted)).toHaveLength(6);
    const mine = sessionRow({ id: "a", fence: a });
    const theirs = sessionRow({ id: "b", fence: b });
    await first.insertSession(mine, MANY);
    await second.insertSession(theirs, MANY);
    const running = { status: "running" } as const;
    const execs = await Promise.all([
      ...Array.from({ length: 70 }, () => first.insertExec(execRow("a", running), a, 90)),
      ...Array.from({ length: 70 }, () => second.insertExec(execRow("b", running), b, 90)),
    ]);
    expect(execs.filter(({ inserted }) => inserted)).toHaveLength(90);
  });

  test("a command that is still being added counts for another one near the quota", async () => {
    const { first, second, a, b } = await two();
    await first.insertSession(sessionRow({ id: "a", fence: a }), MANY);
    await second.insertSession(sessionRow({ id: "b", fence: b }), MANY);
    const max = SIDE_BY_SIDE + 2;
    const slow = new pg.Client(database.url);
    await slow.connect();
    try {
      // Any insertion of a command with this id must wait for this transaction.
      const held = execRow("a", { id: "exe_held", status: "running" });
      await slow.query("BEGIN");
      await slow.query(
        "INSERT INTO execs SELECT (jsonb_populate_record(NULL::execs, $1::jsonb)).*",
        [JSON.stringify(execMapping.record(held))],
      );
      const locks = async (kind: string): Promise<number> => {
        const [counted] = await database.query(
          `SELECT count(*) AS n FROM pg_locks JOIN pg_stat_activity USING (pid)
           WHERE datname = current_database() AND locktype = '${kind}' AND NOT granted`,
        );
        return Number(counted?.["n"]);
      };
      const early = first.insertExec(held, a, max);
      await vi.waitUntil(async () => (await locks("transactionid")) === 1, { timeout: 20_000 });
      // One after the other, so they wait for the first command or for nothing.
      let added = 0;
      const others = (async () => {
        for (let n = 0; n < max; n++)
          if ((await second.insertExec(execRow("b", { status: "running" }), b, max)).inserted)
            added++;
      })();
      await vi.waitUntil(async () => added === max || (await locks("advisory")) > 0, {
        timeout: 20_000,
      });
      await slow.query("ROLLBACK");
      await others;
      if ((await early).inserted) added++;
      expect(added).toBe(max);
    } finally {
      await slow.end();
    }
  });

  test("a daemon that joins while another is alive uses its time, whatever the wall clocks show", async () => {
    const { first, a } = await two();
    let storeMs = 1000;
    const beats = setInterval(() => {
      storeMs += 5;
      void first.beat(a, storeMs, READING);
    }, 5);
    try {
      wallMs += 365 * 24 * 3_600_000;
      const joined = await (await open()).join(undefined, { ...READING, bootId: "boot-2" });
      expect(joined.storeMs).toBeLessThan(60_000);
      expect(joined.storeMs).toBeGreaterThan(1000);
    } finally {
      clearInterval(beats);
    }
  });
});

describe("closing", () => {
  test("lets work in progress finish, and refuses new work at once", async () => {
    const store = await open();
    const { fence } = await store.join(undefined, READING);
    const beats = Array.from({ length: 30 }, () => store.beat(fence, 2000, READING));
    const claim = store.claim(fence, [PLACE]);
    const closed = store.closed();
    await expect(store.beat(fence, 3000, READING)).rejects.toMatchObject({
      code: "INTERNAL_ERROR",
      message: expect.stringContaining("it is closed") as string,
    });
    expect(await Promise.all(beats)).toEqual(beats.map(() => 2000));
    expect(await claim).toEqual({ sessions: [] });
    await closed;
  });
});

describe("the database", () => {
  test("of a newer version, or of another program, is refused and left unchanged", async () => {
    const [known] = await database.query("SELECT version FROM schema_version");
    await database.query("UPDATE schema_version SET version = 999");
    await expect(open()).rejects.toMatchObject({ message: expect.stringContaining("newer") });
    await database.query(`UPDATE schema_version SET version = ${String(known?.["version"])}`);
    await using other = await TestDatabase.make();
    await other.query("CREATE TABLE sessions (id TEXT)");
    await expect(PostgresSessionStore.open({ url: other.url })).rejects.toMatchObject({
      code: "INTERNAL_ERROR",
      message: expect.stringContaining("another program"),
    });
    expect(await other.query("SELECT to_regclass('daemons') AS made")).toEqual([{ made: null }]);
  });

  test("is created once by daemons that start at the same time", async () => {
    await using empty = await TestDatabase.make();
    const stores = await Promise.all(
      [1, 2, 3].map(() => PostgresSessionStore.open({ url: empty.url })),
    );
    expect(new Set(stores.map(({ instance }) => instance)).size).toBe(1);
    for (const store of stores) await store.closed();
  });

  test("that cannot be reached is reported without its password", async () => {
    const url = "postgresql://someone:hush-hush@/none?host=%2Fnonexistent";
    const error: unknown = await PostgresSessionStore.open({ url }).catch(
      (reason: unknown) => reason,
    );
    expect(error).toMatchObject({ code: "DATABASE_UNREACHABLE" });
    expect(String(error)).not.toContain("hush");
  });
});
