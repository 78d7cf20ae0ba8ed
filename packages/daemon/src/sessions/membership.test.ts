import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { SessionStore } from "../ports/session-store.ts";
import { SqliteSessionStore } from "../store/sqlite/sqlite-session-store.ts";
import { Membership } from "./membership.ts";
import { overriding } from "./testing/core-fixture.ts";
import { TestClock } from "./testing/test-clock.ts";
import { TestLog } from "./testing/test-log.ts";

const DEAD_AFTER_MS = 5000;
const moved = { code: "SANDBOX_UNREACHABLE", details: { reason: "moved" } };

let clock: TestClock;
let store: SqliteSessionStore;
/** Called while a heartbeat is in progress. */
let onBeat: () => void;
let beats: number;
let membership: Membership;
beforeEach(async () => {
  clock = new TestClock();
  store = await SqliteSessionStore.open({ path: ":memory:" });
  onBeat = () => undefined;
  beats = 0;
  const beat: SessionStore["beat"] = async (...args) => {
    beats++;
    const storeMs = await store.beat(...args);
    onBeat();
    return storeMs;
  };
  // As of a database that was restored.
  const join: SessionStore["join"] = async (...args) => ({
    ...(await store.join(...args)),
    storeMs: 0,
  });
  const heartbeat = { intervalMs: 1000, deadAfterMs: DEAD_AFTER_MS };
  membership = new Membership({
    store: overriding<SessionStore>(store, { heartbeat, beat, join }),
    clock,
    log: new TestLog(),
  });
  await membership.join();
});
afterEach(() => store.close());

describe("whether a daemon still serves its sessions", () => {
  it("is known without a query only shortly after a heartbeat", async () => {
    expect(membership.certain()).toBeUndefined();
    clock.pass(DEAD_AFTER_MS - 1);
    await membership.certain();
    expect(beats).toBe(1);
    expect(membership.certain()).toBeUndefined();
  });

  it("is not known from a heartbeat that itself took too long", async () => {
    onBeat = () => clock.pass(DEAD_AFTER_MS - 1);
    await membership.beat();
    await expect(membership.certain()).rejects.toMatchObject(moved);
    onBeat = () => undefined;
    await membership.certain();
    expect(membership.certain()).toBeUndefined();
  });

  it("is false from the moment at which the others declared it dead", async () => {
    await store.leave(membership.fence);
    await membership.beat();
    await expect(membership.certain()).rejects.toMatchObject(moved);
    await membership.join();
    expect(membership.certain()).toBeUndefined();
  });

  it("is false while the store does not respond", async () => {
    onBeat = () => {
      throw new Error("no connection");
    };
    clock.pass(DEAD_AFTER_MS);
    await expect(membership.certain()).rejects.toMatchObject(moved);
  });
});

describe("the store's time of a daemon", () => {
  it("continues with the clock that cannot be set", async () => {
    clock.pass(1000);
    clock.wallMs -= 3_600_000;
    expect(membership.storeMs()).toBe(1000);
    await membership.beat();
    clock.pass(500);
    expect(membership.storeMs()).toBe(1500);
  });

  it("does not go back when it joins again", async () => {
    clock.pass(1000);
    await membership.join();
    expect(membership.storeMs()).toBe(1000);
  });
});
