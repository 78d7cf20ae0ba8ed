import { afterEach, describe, expect, it } from "vitest";
import { ALICE, BOB, CoreFixture } from "./testing/core-fixture.ts";
import type { Caller } from "./services/caller.ts";

const KIB = 1024;

let fixture: CoreFixture;
afterEach(async () => {
  await fixture[Symbol.asyncDispose]();
});

async function start(journal: { maxBytesPerOwner: number; maxBytes: number }): Promise<void> {
  fixture = await CoreFixture.start({ settings: { journal } });
}

/** A session that printed this much; ended unless it must stay active. */
async function sessionWith(caller: Caller, bytes: number, lives = false) {
  const { sessions, execs } = fixture.core;
  const { id } = (await sessions.create(caller, {})).session;
  using visit = await sessions.enter(caller, id);
  await visit.channel.writeFile("big", Buffer.alloc(bytes, "x"));
  const exec = await execs.start(caller, id, { command: { kind: "shell", text: "cat big" } });
  await exec.wait();
  if (!lives) await sessions.destroy(caller, id);
  fixture.clock.pass(1000);
  const kept = async (): Promise<number> => {
    const offset = 0;
    const { page } = await exec.read({ offset, maxBytes: bytes });
    expect(page.skippedBytes).toBe(page.chunks.length === 0 ? bytes : 0);
    return page.chunks.reduce((sum, chunk) => sum + chunk.bytes.length, 0);
  };
  return { id, kept };
}

describe("the output of ended sessions", () => {
  it("is deleted, oldest first, if its owner has too much, and readers are told", async () => {
    await start({ maxBytesPerOwner: 250 * KIB, maxBytes: 10_000 * KIB });
    const others = await sessionWith(BOB, 100 * KIB);
    const living = await sessionWith(ALICE, 100 * KIB, true);
    const oldest = await sessionWith(ALICE, 100 * KIB);
    const newest = await sessionWith(ALICE, 100 * KIB);
    await fixture.core.reaper.tick();
    expect(await oldest.kept()).toBe(0);
    for (const session of [others, living, newest]) expect(await session.kept()).toBe(100 * KIB);
    expect(fixture.core.counts().journal).toMatchObject({ prunedSessions: 1 });
    expect(fixture.core.counts().journal.bytes).toBeGreaterThan(300 * KIB);
    // The session itself is still known.
    expect((await fixture.core.sessions.get(ALICE, oldest.id)).status).toBe("destroyed");
  });

  it("is deleted if all owners together have too much", async () => {
    await start({ maxBytesPerOwner: 10_000 * KIB, maxBytes: 250 * KIB });
    const oldest = await sessionWith(BOB, 100 * KIB);
    const middle = await sessionWith(ALICE, 100 * KIB);
    const newest = await sessionWith(BOB, 100 * KIB);
    await fixture.core.reaper.tick();
    expect(await oldest.kept()).toBe(0);
    for (const session of [middle, newest]) expect(await session.kept()).toBe(100 * KIB);
    await fixture.core.reaper.tick();
    expect(fixture.core.counts().journal.prunedSessions).toBe(1);
    expect(fixture.core.counts().journal.bytes).toBeLessThan(250 * KIB);
  });
});
