/** The conformance suite of the `EventLog` port: every event log passes it. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { EventLog, EventQuery, EventRetention, NewEvent, StoredEvent } from "./ports.ts";

export interface EventLogFixture {
  /** New and empty. */
  readonly log: EventLog;
  /** Closes the log and reopens its data. */
  readonly reopen: () => Promise<EventLog>;
  readonly close: () => Promise<void>;
}

const KEEP_ALL: EventRetention = {
  maxAgeMs: Number.MAX_SAFE_INTEGER,
  maxEventsPerOwner: 1_000_000,
  maxEvents: 1_000_000,
  maxBytes: 1_000_000_000,
};

export function eventLogSuite(name: string, makeFixture: () => Promise<EventLogFixture>): void {
  describe(`${name} as an event log`, () => {
    let fixture: EventLogFixture;
    beforeEach(async () => {
      fixture = await makeFixture();
    });
    afterEach(async () => await fixture.close());

    test("keeps events in the order in which they were written, through a restart", async () => {
      await fixture.log.append([started("alice", 1), started("bob", 2)]);
      await fixture.log.append([started("alice", 3)]);
      const { cursorKey } = fixture.log;
      const log = await fixture.reopen();
      const events = await all(log);
      expect(events.map(numberOf)).toEqual([1, 2, 3]);
      const positions = events.map(({ position }) => position);
      expect(positions).toEqual(positions.toSorted((one, other) => one - other));
      expect(new Set(positions).size).toBe(3);
      expect(Buffer.from(log.cursorKey)).toEqual(Buffer.from(cursorKey));
      expect(await log.newest()).toBe(positions.at(-1));
    });

    test("returns events unchanged", async () => {
      const event: NewEvent = {
        type: "file.changed",
        owner: "alice",
        sessionId: "ses_1",
        atMs: 12.5,
        data: { changes: 2, paths: ["/workspace/ä\u2028\"'\\", "\u0000"], more: false },
      };
      await fixture.log.append([event]);
      const [stored] = await all(fixture.log);
      expect(stored).toMatchObject({ ...event, data: event.data });
    });

    test("returns only events in the scope", async () => {
      await fixture.log.append([
        started("alice", 1, "ses_1"),
        started("bob", 2, "ses_1"),
        { ...started("alice", 3, "ses_2"), type: "session.paused", data: {} },
        started("alice", 4, "ses_2"),
      ]);
      const numbers = async (scope: Partial<EventQuery>): Promise<number[]> =>
        (await all(fixture.log, scope)).map(({ atMs }) => atMs);
      expect(await numbers({ owner: "alice" })).toEqual([1, 3, 4]);
      expect(await numbers({ sessionId: "ses_1" })).toEqual([1, 2]);
      expect(await numbers({ owner: "alice", sessionId: "ses_1" })).toEqual([1]);
      expect(await numbers({ owner: "alice", types: new Set(["session.paused"]) })).toEqual([3]);
      expect(await numbers({ owner: "alice' OR '1'='1" })).toEqual([]);
    });

    test("returns the latest events of a session, oldest first", async () => {
      await fixture.log.append([
        started("alice", 10, "ses_1"),
        started("alice", 90, "ses_1"),
        started("alice", 95, "ses_2"),
        started("alice", 100, "ses_1"),
        started("alice", 500, "ses_2"),
      ]);
      const latest = async (id: string, withinMs: number, limit: number): Promise<number[]> =>
        (await fixture.log.latestOf(id, withinMs, limit)).map(numberOf);
      expect(await latest("ses_1", 10, 5)).toEqual([90, 100]);
      expect(await latest("ses_1", 1000, 2)).toEqual([90, 100]);
      expect(await latest("ses_1", 1000, 5)).toEqual([10, 90, 100]);
      expect(await latest("ses_3", 1000, 5)).toEqual([]);
    });

    test("pages end, and continue after the previous page", async () => {
      await fixture.log.append(Array.from({ length: 25 }, (_, at) => started("alice", at)));
      const seen: number[] = [];
      let after = 0;
      for (;;) {
        const page = await fixture.log.read({ after, limit: 10, owner: "alice" });
        seen.push(...page.events.map(numberOf));
        expect(page.position).toBeGreaterThanOrEqual(after);
        after = page.position;
        if (page.isLast) break;
      }
      expect(seen).toEqual(Array.from({ length: 25 }, (_, at) => at));
      expect(after).toBe(await fixture.log.newest());
    });

    test("removes by age, and reports up to where", async () => {
      await fixture.log.append([started("alice", 10), started("bob", 20), started("alice", 30)]);
      const [, second] = await all(fixture.log);
      await prune(fixture.log, { ...KEEP_ALL, maxAgeMs: 5 }, 30);
      const page = await fixture.log.read({ after: 0, limit: 10, owner: "carol" });
      expect((await all(fixture.log)).map(numberOf)).toEqual([30]);
      expect(page.removedUpTo).toBe(second?.position);
      const reopened = await fixture.reopen();
      expect((await reopened.read({ after: 0, limit: 10 })).removedUpTo).toBe(second?.position);
    });

    test("never uses a position twice, even if all events are gone", async () => {
      await fixture.log.append([started("alice", 1)]);
      const before = await fixture.log.newest();
      await prune(fixture.log, { ...KEEP_ALL, maxAgeMs: 0 }, 1000);
      expect(await all(fixture.log)).toEqual([]);
      const log = await fixture.reopen();
      await log.append([started("alice", 2)]);
      expect((await all(log))[0]?.position).toBeGreaterThan(before);
    });

    test("deletes only the events of an owner who floods the log", async () => {
      await fixture.log.append([started("quiet", 1)]);
      await fixture.log.append(Array.from({ length: 200 }, (_, at) => started("loud", at)));
      await fixture.log.append([started("quiet", 2)]);
      await prune(fixture.log, { ...KEEP_ALL, maxEventsPerOwner: 50 }, 0);
      const quiet = await fixture.log.read({ after: 0, limit: 10, owner: "quiet" });
      expect(quiet.events.map(numberOf)).toEqual([1, 2]);
      expect(quiet.removedUpTo).toBe(0);
      const loud = await fixture.log.read({ after: 0, limit: 1000, owner: "loud" });
      expect(loud.events.map(numberOf)).toEqual(Array.from({ length: 50 }, (_, at) => at + 150));
      expect(loud.removedUpTo).toBe((loud.events[0]?.position ?? 0) - 1);
      expect((await fixture.log.read({ after: 0, limit: 1 })).removedUpTo).toBe(loud.removedUpTo);
    });

    test("is limited in events and bytes of all owners together", async () => {
      await fixture.log.append([started("quiet", 1)]);
      await fixture.log.append(Array.from({ length: 200 }, (_, at) => started("loud", at)));
      await prune(fixture.log, { ...KEEP_ALL, maxEvents: 100 }, 0);
      expect((await all(fixture.log)).length).toBeLessThanOrEqual(100);
      await prune(fixture.log, { ...KEEP_ALL, maxBytes: 2000 }, 0);
      const left = await all(fixture.log);
      expect(left.length).toBeLessThanOrEqual(20);
      expect(left.map(({ owner }) => owner)).toContain("quiet");
    });
  });
}

/** Distinguished by their times. */
function started(owner: string, atMs: number, sessionId = "ses_1"): NewEvent {
  return {
    type: "exec.started",
    owner,
    sessionId,
    atMs,
    data: { exec_id: "exe_1", mode: "shell", shell: "default" },
  };
}

function numberOf({ atMs }: StoredEvent): number {
  return atMs;
}

async function all(
  log: EventLog,
  scope: Partial<EventQuery> = {},
): Promise<readonly StoredEvent[]> {
  return (await log.read({ after: 0, limit: 1000, ...scope })).events;
}

async function prune(log: EventLog, retention: EventRetention, nowMs: number): Promise<void> {
  for (let rounds = 0; !(await log.prune(retention, nowMs)); rounds += 1)
    if (rounds > 1000) throw new Error("pruning does not come to an end");
}
