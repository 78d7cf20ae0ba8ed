/** A daemon that the others declared dead joins again and continues. */
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Backend } from "../ports/backend.ts";
import type { SessionStore } from "../ports/session-store.ts";
import { ALICE, CoreFixture, overriding } from "./testing/core-fixture.ts";

const READING = { bootId: "boot-2", monotonicMs: 1, wallMs: 0 };
const DEAD_AFTER_MS = 300_000;
const POOL = [{ image: "host", profile: "restricted" as const, size: 1 }];

let fixture: CoreFixture;
let engine: PromiseWithResolvers<void>;
/** A pause has reached the backend, which waits for the engine. */
let pausing: PromiseWithResolvers<void>;
beforeEach(async () => {
  engine = Promise.withResolvers();
  engine.resolve();
  pausing = Promise.withResolvers();
  fixture = await CoreFixture.start({
    settings: { pool: POOL },
    wrapStore: (store: SessionStore) =>
      overriding(store, { heartbeat: { intervalMs: 60_000, deadAfterMs: DEAD_AFTER_MS } }),
    wrap: (backend: Backend) =>
      overriding(backend, {
        list: async () => {
          await engine.promise;
          return await backend.list();
        },
        pause: async (id, fence) => {
          pausing.resolve();
          await engine.promise;
          await backend.pause(id, fence);
        },
        destroy: async (id) => {
          await engine.promise;
          await backend.destroy(id);
        },
      }),
  });
  await fixture.core.pool.settled();
});
afterEach(async () => {
  engine.resolve();
  await fixture[Symbol.asyncDispose]();
});

describe("a daemon that lost its sessions", () => {
  it("sends heartbeats while an engine is slow to list and remove sandboxes", async () => {
    const { sessions, membership } = fixture.core;
    const { session } = await sessions.create(ALICE, {});
    await fixture.core.pool.settled();
    engine = Promise.withResolvers();
    await fixture.store.leave(membership.fence);
    await membership.beat();
    const joined = membership.fence;
    await membership.beat();
    expect(membership.fence).toBe(joined);
    expect(await fixture.store.getSession(session.id)).toMatchObject({ fence: joined });
    // The session itself can be used before the rest is done.
    expect((await fixture.run(session.id, "echo here")).output).toBe("here\n");
    engine.resolve();
  });

  it("does not respond from memory once its heartbeat is overdue", async () => {
    const { sessions, membership } = fixture.core;
    const { session } = await sessions.create(ALICE, {});
    const { fence } = await fixture.store.join(undefined, READING);
    await fixture.store.claim(fence);
    for (const status of ["destroying", "destroyed"] as const)
      await fixture.store.updateSession(session.id, fence, ["running", "destroying"], { status });
    expect((await sessions.get(ALICE, session.id)).status).toBe("running");
    fixture.clock.pass(DEAD_AFTER_MS);
    expect((await sessions.get(ALICE, session.id)).status).toBe("destroyed");
    expect(await fixture.store.livingDaemon(membership.fence)).toBeDefined();
  });

  it("does not pause or resume what another daemon serves", async () => {
    const { sessions } = fixture.core;
    const { session } = await sessions.create(ALICE, {});
    const paused = (await sessions.create(ALICE, {})).session;
    await sessions.pause(ALICE, paused.id);
    const { fence } = await fixture.store.join(undefined, READING);
    await fixture.store.claim(fence);
    const moved = { code: "SANDBOX_UNREACHABLE", details: { reason: "moved" } };
    await expect(sessions.pause(ALICE, session.id)).rejects.toMatchObject(moved);
    await expect(sessions.resume(ALICE, paused.id)).rejects.toMatchObject(moved);
    expect(stateOf(session.id)).toBe("running");
    expect(stateOf(paused.id)).toBe("paused");
  });

  it("cannot pause with a request that reaches the engine late", async () => {
    const { sessions, membership } = fixture.core;
    const { session } = await sessions.create(ALICE, {});
    await fixture.core.pool.settled();
    engine = Promise.withResolvers();
    const late = sessions.pause(ALICE, session.id).catch((error: unknown) => error);
    await pausing.promise;
    await fixture.store.leave(membership.fence);
    await membership.beat();
    expect((await fixture.run(session.id, "echo here")).output).toBe("here\n");
    engine.resolve();
    expect(await late).toMatchObject({ details: { reason: "moved" } });
    expect(stateOf(session.id)).toBe("running");
    expect(await sessions.get(ALICE, session.id)).toMatchObject({ status: "running" });
    expect((await sessions.pause(ALICE, session.id)).status).toBe("paused");
  });

  it("replaces the sandboxes of its pool", async () => {
    const { membership, pool } = fixture.core;
    const before = [...fixture.machine.sandboxes.keys()];
    expect(before).toHaveLength(1);
    await fixture.store.leave(membership.fence);
    await membership.beat();
    await fixture.core.reaper.tick();
    await pool.settled();
    const after = [...fixture.machine.sandboxes.keys()];
    expect(after).toHaveLength(1);
    expect(after).not.toEqual(before);
  });
});

function stateOf(sandboxId: string): "running" | "paused" | undefined {
  const found = fixture.machine.sandboxes.get(sandboxId);
  return found && (found.sandbox.paused ? "paused" : "running");
}
