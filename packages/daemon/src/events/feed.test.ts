import { setImmediate as otherWork, setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { EventRetention } from "../ports/event-log.ts";
import { SqliteEventLog } from "../store/sqlite/sqlite-event-log.ts";
import { worstTurnMs } from "../testing/worst-turn.ts";
import { EventHub } from "./event-hub.ts";
import { EventFeed } from "./feed.ts";
import type { FeedItem, FollowEvents } from "./feed.ts";

const RETENTION: EventRetention = {
  maxAgeMs: 1_000_000,
  maxEventsPerOwner: 100_000,
  maxEvents: 100_000,
  maxBytes: 100_000_000,
};
const clock = { nowMs: () => 1000, monotonicMs: () => 0, bootId: "boot" };
const quiet = { info: () => undefined, warn: () => undefined, error: () => undefined };

let log: SqliteEventLog;
let hub: EventHub;
let gone: AbortController;

beforeEach(async () => {
  gone = new AbortController();
  log = await SqliteEventLog.open({ path: ":memory:" });
  hub = new EventHub({
    eventLog: log,
    clock,
    log: quiet,
    retention: RETENTION,
    limits: { maxFollowers: 8, maxFollowersPerOwner: 4 },
  });
});
afterEach(async () => {
  gone.abort();
  await hub.close();
});

/** Distinguished by how many files changed. */
function change(changes: number, owner = "alice"): void {
  hub.record({ type: "file.changed", owner, data: { changes, paths: [], more: false } });
}

function numbersOf(items: readonly FeedItem[]): number[] {
  return items.flatMap((item) =>
    item.kind === "event" && item.event.type === "file.changed" ? [item.event.data.changes] : [],
  );
}

const upTo = (count: number): number[] => Array.from({ length: count }, (_, at) => at);

async function* follow(options: Partial<FollowEvents> = {}): AsyncGenerator<FeedItem> {
  using follower = await hub.open({
    follower: "alice",
    owner: "alice",
    from: "start",
    signal: gone.signal,
    ...options,
  });
  yield* follower.items();
}

async function collect(
  items: AsyncIterable<FeedItem>,
  isEnough: (got: readonly FeedItem[]) => boolean = () => false,
): Promise<FeedItem[]> {
  const got: FeedItem[] = [];
  for await (const item of items) {
    got.push(item);
    if (isEnough(got)) break;
  }
  return got;
}

describe("a follower", () => {
  it("gets past and future events, each once and in order, while writers write at full speed", async () => {
    const total = 3000;
    const writing = (async () => {
      for (let number = 0; number < total; number += 1) {
        change(number);
        if (number % 97 === 0) await otherWork();
      }
    })();
    await sleep(20);
    // Several followers, which start in the middle and read at different speeds.
    const followers = [1, 2, 3].map(async (pace) => {
      const got: FeedItem[] = [];
      for await (const item of follow()) {
        got.push(item);
        if (got.length % (500 * pace) === 0) await sleep(1);
        if (numbersOf([item])[0] === total - 1) break;
      }
      return numbersOf(got);
    });
    await writing;
    for (const numbers of await Promise.all(followers)) expect(numbers).toEqual(upTo(total));
  });

  it("continues after its cursor, wherever it stopped", async () => {
    for (const number of upTo(600)) change(number);
    let from: FollowEvents["from"] = "start";
    const seen: number[] = [];
    while (seen.length < 600) {
      const some = await collect(follow({ from }), (got) => numbersOf(got).length === 7);
      seen.push(...numbersOf(some));
      from = { cursor: some.at(-1)?.cursor ?? "" };
      if (seen.length > 590) break;
    }
    seen.push(...numbersOf(await collect(follow({ from, once: true }))));
    expect(seen).toEqual(upTo(600));
  });

  it("starts now unless it asks for more, and loses nothing from then on", async () => {
    change(0);
    const items = follow({ from: "now" });
    const { value: place } = (await items.next()) as { value: FeedItem };
    expect(place.kind).toBe("place");
    change(1);
    const after = numbersOf(await collect(items, (got) => numbersOf(got).length === 1));
    expect(after).toEqual([1]);
    // The first event of a follower is where it starts.
    const again = await collect(follow({ from: { cursor: place.cursor }, once: true }));
    expect(numbersOf(again)).toEqual([1]);
  });

  it("sees only its own owner's events, of the requested types", async () => {
    change(1, "bob");
    change(2);
    hub.record({ type: "session.paused", owner: "alice", sessionId: "ses_1", data: {} });
    const types = new Set(["file.changed"]);
    expect(numbersOf(await collect(follow({ once: true })))).toEqual([2]);
    expect((await collect(follow({ once: true }))).length).toBe(3);
    expect((await collect(follow({ once: true, types }))).length).toBe(2);
    expect((await collect(follow({ once: true, sessionId: "ses_1" }))).length).toBe(2);
    const all = hub.open({ follower: "root", from: "start", once: true, signal: gone.signal });
    expect(numbersOf(await collect((await all).items()))).toEqual([1, 2]);
  });

  it("gets one gap if events after its cursor are gone, and none for events that it never knew of", async () => {
    for (const number of upTo(10)) change(number);
    const early = await collect(follow({ once: true }));
    const third = early[3]?.cursor ?? "";
    for (const number of upTo(10)) change(10 + number);
    await collect(follow({ once: true }));
    await log.prune({ ...RETENTION, maxEventsPerOwner: 5 }, 0);
    const gaps = (items: readonly FeedItem[]) => items.filter(({ kind }) => kind === "gap");
    const late = await collect(follow({ from: { cursor: third }, once: true }));
    expect(gaps(late)).toEqual([expect.objectContaining({ reason: "retention" })]);
    expect(late.findIndex(({ kind }) => kind === "gap")).toBeLessThan(
      late.findIndex(({ kind }) => kind === "event"),
    );
    expect(numbersOf(late)).toEqual([15, 16, 17, 18, 19]);
    const last = late.at(-1)?.cursor ?? "";
    expect(gaps(await collect(follow({ from: { cursor: last }, once: true })))).toEqual([]);
    expect(gaps(await collect(follow({ from: "start", once: true })))).toEqual([]);
  });

  it("with a cursor of another feed gets a gap, and starts with the oldest event", async () => {
    change(1);
    const cursor = "AAAAAAAAAAAAAAAAAAAAAA";
    const items = await collect(follow({ from: { cursor }, once: true }));
    expect(items[0]).toMatchObject({ kind: "gap", reason: "unknown_cursor" });
    expect(numbersOf(items)).toEqual([1]);
  });

  it("that stalls does not delay others, and reads what it missed from the log", async () => {
    const still = follow();
    await still.next();
    for (const number of upTo(2000)) {
      change(number);
      if (number % 500 === 0) await sleep(11);
    }
    expect(numbersOf(await collect(follow({ once: true }))).length).toBe(2000);
    const rest = await collect(still, (got) => got.length === 2000);
    expect(numbersOf(rest)).toEqual(upTo(2000));
  });
});

describe("the number of followers", () => {
  it("is limited per owner and in total, is reported, and is released", async () => {
    const open = (follower: string) => hub.open({ follower, from: "now", signal: gone.signal });
    const alices = [];
    for (let count = 0; count < 4; count += 1) alices.push(await open("alice"));
    await expect(open("alice")).rejects.toMatchObject({ code: "QUOTA_EXCEEDED" });
    for (let count = 0; count < 4; count += 1) await open("bob");
    await expect(open("carol")).rejects.toMatchObject({ code: "QUOTA_EXCEEDED" });
    alices[0]?.[Symbol.dispose]();
    alices[0]?.[Symbol.dispose]();
    await open("carol");
    expect(hub.followers).toBe(8);
  });
});

describe("a log that cannot be written", () => {
  it("delays no request, and later reports the events that were lost", async () => {
    const append = log.append.bind(log);
    log.append = async () => await Promise.reject(new Error("the disk is full"));
    await hub.recordNow({ type: "session.paused", owner: "alice", data: {} });
    for (const number of upTo(8191 + 10)) change(number);
    change(1, "bob");
    log.append = append;
    const items = await collect(follow({ once: true }));
    expect(numbersOf(items)).toEqual(upTo(8191));
    expect(items.at(-1)).toMatchObject({
      event: { type: "events.lost", owner: "alice", data: { events: 10 } },
    });
  });
});

it("shares turns with other work when many followers begin at the same time", async () => {
  for (const number of upTo(300)) change(number);
  await hub.flush();
  const feed = new EventFeed(log, { maxFollowers: 60, maxFollowersPerOwner: 60 });
  const all = Promise.all(
    Array.from({ length: 60 }, async () => {
      const options = { follower: "alice", owner: "alice", from: "start", once: true } as const;
      using follower = feed.open({ ...options, signal: gone.signal });
      return numbersOf(await collect(follower.items()));
    }),
  );
  expect(await worstTurnMs(all)).toBeLessThan(100);
  for (const numbers of await all) expect(numbers).toHaveLength(300);
});
