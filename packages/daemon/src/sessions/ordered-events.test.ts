import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Happening } from "../events/recorder.ts";
import { OrderedEvents } from "./ordered-events.ts";
import { ALICE, CoreFixture, overriding } from "./testing/core-fixture.ts";

const paused = (sessionId: string): Happening => ({
  type: "session.paused",
  owner: "alice",
  sessionId,
  data: {},
});

describe("events of a session", () => {
  let told: (string | undefined)[];
  let events: OrderedEvents;
  beforeEach(() => {
    told = [];
    const tell = ({ sessionId }: Happening): void => void told.push(sessionId);
    events = new OrderedEvents({ tell, tellNow: async (one) => await Promise.resolve(tell(one)) });
  });

  it("wait for earlier ones of the same session only", () => {
    events.tell(paused("1"));
    const second = events.reserve();
    const third = events.reserve();
    events.tell(paused("4"));
    third.fill(paused("3"));
    third[Symbol.dispose]();
    expect(told).toEqual(["1"]);
    second.fill(paused("2"));
    second[Symbol.dispose]();
    expect(told).toEqual(["1", "2", "3", "4"]);
    events.tell(paused("5"));
    expect(told.at(-1)).toBe("5");
  });

  it("do not wait for one that could not be stored", () => {
    const never = events.reserve();
    events.tell(paused("2"));
    never[Symbol.dispose]();
    expect(told).toEqual(["2"]);
  });
});

describe("a session on a store that is slow to store the ends of commands", () => {
  let fixture: CoreFixture;
  const told: string[] = [];
  const stored: (() => void)[] = [];
  beforeEach(async () => {
    fixture = await CoreFixture.start({
      wrapStore: (store) =>
        overriding(store, {
          updateExec: async (...args) => {
            if (args[3].status === "done")
              await new Promise<void>((resolve) => stored.push(resolve));
            await store.updateExec(...args);
          },
        }),
    });
    fixture.events.onEvents((events) => told.push(...events.map(({ type }) => type)));
  });
  afterEach(async () => await fixture[Symbol.asyncDispose]());

  it("reports a command's end before the next command's start", async () => {
    const { sessions } = fixture.core;
    const { session } = await sessions.create(ALICE, {});
    await fixture.run(session.id, "true");
    await fixture.run(session.id, "true");
    // The second is stored first.
    for (const resolve of stored.toReversed()) resolve();
    await sessions.pause(ALICE, session.id);
    const once = ["exec.started", "exec.ended"];
    await expect.poll(() => told.length).toBe(7);
    expect(told).toEqual([
      "session.created",
      "session.running",
      ...once,
      ...once,
      "session.paused",
    ]);
    await sessions.resume(ALICE, session.id);
  });
});
