import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { StoredEvent } from "../ports/event-log.ts";
import { ALICE, CoreFixture } from "./testing/core-fixture.ts";

let fixture: CoreFixture;
beforeEach(async () => {
  fixture = await CoreFixture.start();
});
afterEach(async () => await fixture[Symbol.asyncDispose]());

async function fileEvents(
  types: readonly string[] = ["file.changed"],
): Promise<readonly StoredEvent[]> {
  using follower = await fixture.events.open({
    follower: "test",
    from: "start",
    once: true,
    types: new Set(types),
    signal: new AbortController().signal,
  });
  const items = await Array.fromAsync(follower.items());
  return items.flatMap((item) => (item.kind === "event" ? [item.event] : []));
}

const source = (text: string) => Buffer.from(text);

describe("changed files", () => {
  it("are reported once for many changes, with the first paths and their number", async () => {
    const { session } = await fixture.core.sessions.create(ALICE, {});
    using files = await fixture.core.files.open(ALICE, { kind: "session", id: session.id });
    for (let number = 0; number < 500; number += 1)
      await files.writeFile(`/workspace/${number % 20}`, source("x"));
    await expect.poll(async () => (await fileEvents()).length).toBeGreaterThan(0);
    await fixture.core.stop("keep");
    const events = await fileEvents();
    expect(events.length).toBeLessThan(100);
    const datas = events.map(({ data }) => data as { changes: number; paths: string[] });
    expect(datas.reduce((sum, { changes }) => sum + changes, 0)).toBe(500);
    expect(datas[0]?.paths[0]).toBe("/workspace/0");
    expect(Math.max(...datas.map(({ paths }) => paths.length))).toBe(8);
    expect(events[0]).toMatchObject({ owner: "alice", sessionId: session.id });
    expect(events[0]?.data).toMatchObject({ more: true });
  });

  it("are reported before the end of their session", async () => {
    const { session } = await fixture.core.sessions.create(ALICE, {});
    {
      using files = await fixture.core.files.open(ALICE, { kind: "session", id: session.id });
      await files.writeFile("/workspace/last", source("x"));
    }
    await fixture.core.sessions.destroy(ALICE, session.id);
    const events = await fileEvents(["file.changed", "session.ended"]);
    expect(events.map(({ type }) => type)).toEqual(["file.changed", "session.ended"]);
  });

  it("are not reported if the change failed, or if they were only read", async () => {
    const { session } = await fixture.core.sessions.create(ALICE, {});
    {
      using files = await fixture.core.files.open(ALICE, { kind: "session", id: session.id });
      await files.listDirectory("/workspace");
      await expect(files.remove("/workspace/nothing")).rejects.toThrow();
    }
    await fixture.core.stop("keep");
    expect(await fileEvents()).toEqual([]);
  });

  it("of a workspace name the workspace", async () => {
    const location = { kind: "workspace", id: "notes" } as const;
    {
      using files = await fixture.core.files.open(ALICE, location, { create: true });
      await files.makeDirectory("/workspace/a");
    }
    await fixture.core.stop("keep");
    const [event] = await fileEvents();
    expect(event).toMatchObject({ owner: "alice", data: { workspace_id: "notes", changes: 1 } });
    expect(event?.sessionId).toBeUndefined();
  });
});
