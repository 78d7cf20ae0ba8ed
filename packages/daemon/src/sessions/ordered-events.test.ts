import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { ReportedEvent } from "../events/recorder.ts";
import { OrderedEvents } from "./ordered-events.ts";
import { ALICE, CoreFixture, overriding } from "./testing/core-fixture.ts";

const paused = (sessionId: string): ReportedEvent => ({
  type: "session.paused",
  owner: "alice",
  sessionId,
  data: {},
});

describe("events of a session", () => {
  let recorded: (string | undefined)[];
  let events: OrderedEvents;
  beforeEach(() => {
    recorded = [];
    const record = ({ sessionId }: ReportedEvent): void => void recorded.push(sessionId);
    events = new OrderedEvents({
      record,
      recordNow: async (one) => await Promise.resolve(record(one)),
    });
  });

  it("wait for earlier ones of the same session only", () => {
    events.record(paused("1"));
    const second = events.reserve();
    const third = events.reserve();
    events.record(paused("4"));
    third.fill(paused("3"));
    third[Symbol.dispose]();
    expect(recorded).toEqual(["1"]);
    second.fill(paused("2"));
    second[Symbol.dispose]();
    expect(recorded).toEqual(["1", "2", "3", "4"]);
    events.record(paused("5"));
    expect(recorded.at(-1)).toBe("5");
  });

  it("do not wait for one that could not be stored", () => {
    const never = events.reserve();
    events.record(paused("2"));
    never[Symbol.dispose]();
    expect(recorded).toEqual(["2"]);
  });
});

describe("a session on a store that is slow to store the ends of commands", () => {
  let fixture: CoreFixture;
  const recorded: string[] = [];
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
    fixture.events.onEvents((events) => recorded.push(...events.map(({ type }) => type)));
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
    await expect.poll(() => recorded.length).toBe(7);
    expect(recorded).toEqual([
      "session.created",
      "session.running",
      ...once,
      ...once,
      "session.paused",
    ]);
    await sessions.resume(ALICE, session.id);
  });
});
