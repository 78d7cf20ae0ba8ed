/** The event log passes the suite, and what only a log shared by several daemons must handle. */
import { eventLogSuite, MANY, sessionRow } from "@sandkasten/testkit";
import pg from "pg";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { TestDatabase } from "../../../../../tests/support/postgres-under-test.ts";
import type { NewEvent } from "../../ports/event-log.ts";
import { PostgresEventLog } from "./postgres-event-log.ts";
import { PostgresSessionStore } from "./postgres-session-store.ts";

const READING = { bootId: "boot-1", monotonicMs: 1000, wallMs: 0 };

let database: TestDatabase;
const opened: PostgresSessionStore[] = [];

interface Writer {
  readonly store: PostgresSessionStore;
  readonly log: PostgresEventLog;
  readonly fence: number;
}

/** With separate connections and another token, as in a separate process. */
async function open(): Promise<Writer> {
  const store = await PostgresSessionStore.open({
    url: database.url,
    heartbeat: { intervalMs: 10, deadAfterMs: 5000 },
  });
  opened.push(store);
  const { fence } = await store.join(undefined, READING);
  const log = await PostgresEventLog.open({ database: store.database, fence: () => fence });
  return { store, log, fence };
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

eventLogSuite("Postgres", async () => ({
  log: (await open()).log,
  reopen: async () => {
    await closeAll();
    return (await open()).log;
  },
  close: closeAll,
}));

const paused = (atMs: number, sessionId?: string): NewEvent => ({
  type: "session.paused",
  owner: "alice",
  atMs,
  data: {},
  ...(sessionId !== undefined && { sessionId }),
});

describe("several daemons", () => {
  test("write at full speed, and a concurrent reader misses none and gets none twice", async () => {
    const writers = [await open(), await open(), await open()];
    const { log } = await open();
    expect(new Set(writers.map((one) => String(one.log.cursorKey))).size).toBe(1);
    const rounds = 60;
    let isOver = false;
    const writing = Promise.all(
      writers.map(async (one, at) => {
        for (let round = 0; round < rounds; round++)
          await one.log.append([paused(at * 1000 + round), paused(at * 1000 + round + 0.5)]);
      }),
    ).finally(() => {
      isOver = true;
    });
    const seen: number[] = [];
    let after = 0;
    for (let isLast = false; !isLast;) {
      const wasOver = isOver;
      const page = await log.read({ after, limit: 7 });
      seen.push(...page.events.map(({ atMs }) => atMs));
      after = page.position;
      isLast = page.isLast && wasOver;
    }
    await writing;
    const written = writers.flatMap((_, at) =>
      Array.from({ length: 2 * rounds }, (__, half) => at * 1000 + half / 2),
    );
    expect(seen.toSorted((one, other) => one - other)).toEqual(written);
    for (const at of writers.keys()) {
      const own = seen.filter((ms) => Math.floor(ms / 1000) === at);
      expect(own).toEqual(own.toSorted((one, other) => one - other));
    }
  });

  test("an event that is committed late never comes before one that was already read", async () => {
    const { log, fence } = await open();
    const slow = new pg.Client(database.url);
    await slow.connect();
    try {
      await slow.query("BEGIN");
      await slow.query(
        `SELECT append_events(${fence}, '{1}', '{alice}', '{NULL}', '{session.paused}', '{"{}"}')`,
      );
      const later = log.append([paused(2)]);
      // The slow one has its position already; no later event may be read before it.
      const page = await log.read({ after: 0, limit: 10 });
      expect(page).toMatchObject({ events: [], position: 0 });
      await slow.query("COMMIT");
      await later;
      const next = await log.read({ after: page.position, limit: 10 });
      expect(next.events.map(({ atMs }) => atMs)).toEqual([1, 2]);
    } finally {
      await slow.end();
    }
  });

  test("a daemon that lost its sessions no longer records events for them", async () => {
    const [first, second] = [await open(), await open()];
    await first.store.insertSession(sessionRow({ id: "s", fence: first.fence }), MANY);
    await first.log.append([paused(1, "s")]);
    await second.store.beat(second.fence, 60_000, READING);
    await second.store.claim(second.fence, ["oci:here"]);
    await first.log.append([paused(2, "s"), paused(3)]);
    await second.log.append([paused(4, "s")]);
    const { events } = await second.log.read({ after: 0, limit: 10 });
    expect(events.map(({ atMs }) => atMs)).toEqual([1, 3, 4]);
    // With a new token, it is a stranger to that session.
    const again = await first.store.join(undefined, READING);
    const log = await PostgresEventLog.open({
      database: first.store.database,
      fence: () => again.fence,
    });
    await log.append([paused(5, "s"), paused(6)]);
    const after = await second.log.read({ after: 3, limit: 10 });
    expect(after.events.map(({ atMs }) => atMs)).toEqual([6]);
  });
});
