import { setImmediate as turnOfLoop } from "node:timers/promises";
import { SandboxError } from "@sandkasten/protocol";
import { afterEach, describe, expect, it, vi } from "vitest";
import type { Backend, SandboxSpec } from "../ports/backend.ts";
import type { SessionStore } from "../ports/session-store.ts";
import type { Caller } from "./services/caller.ts";
import type { SessionQuery } from "./services/session-service.ts";
import { ALICE, BOB, CoreFixture, overriding, SETTINGS } from "./testing/core-fixture.ts";
import type { CoreOptions } from "./testing/core-fixture.ts";

let fixture: CoreFixture;
afterEach(async () => {
  await fixture[Symbol.asyncDispose]();
});

async function start(options?: CoreOptions): Promise<CoreFixture> {
  fixture = await CoreFixture.start(options);
  return fixture;
}

/** Starts after this many turns of other promises. */
async function after<T>(steps: number, work: () => Promise<T>): Promise<T> {
  for (let step = 0; step < steps; step++) await Promise.resolve();
  return await work();
}

const code = (expected: string) => expect.objectContaining({ code: expected });

describe("create()", () => {
  it("creates a running session of the default image with the default lease", async () => {
    const { core, clock } = await start();
    const { session, created } = await core.sessions.create(ALICE, {});
    expect(created).toBe(true);
    expect(session).toMatchObject({
      status: "running",
      image: "host",
      cwd: "/workspace",
      acquireSource: "cold",
      expiresAtMs: clock.wallMs + 60_000,
      maxExpiresAtMs: clock.wallMs + 600_000,
    });
  });

  it("returns the active session of a key instead of creating another", async () => {
    const { core, machine } = await start();
    const first = await core.sessions.create(ALICE, { key: "workflow:run:default" });
    const second = await core.sessions.create(ALICE, { key: "workflow:run:default" });
    expect(second).toMatchObject({ created: false, session: { id: first.session.id } });
    expect(machine.sandboxes.size).toBe(1);
  });

  it("creates one sandbox for fifty concurrent requests with one key", async () => {
    const { core, machine } = await start();
    const all = await Promise.all(
      Array.from({ length: 50 }, () => core.sessions.create(ALICE, { key: "workflow:a:b" })),
    );
    expect(new Set(all.map(({ session }) => session.id)).size).toBe(1);
    expect(all.filter(({ created }) => created)).toHaveLength(1);
    expect(machine.sandboxes.size).toBe(1);
  });

  it("starts the first of many concurrent requests before it resolves the images of the rest", async () => {
    const { core, images } = await start({
      settings: { concurrentCreates: 2 },
      wrap: (backend) =>
        overriding(backend, {
          create: async (spec: SandboxSpec) => {
            looksBefore ??= looks;
            return await backend.create(spec);
          },
        }),
    });
    let looks = 0;
    let looksBefore: number | undefined;
    const look = vi.spyOn(images, "ensure").mockImplementation(async (reference) => {
      looks += 1;
      await turnOfLoop();
      return await images.inspect(reference);
    });
    await Promise.all(Array.from({ length: 20 }, () => core.sessions.create(ALICE, {})));
    look.mockRestore();
    expect(looks).toBe(20);
    expect(looksBefore).toBe(2);
  });

  it("creates a new session for a key if the old one has expired or was destroyed", async () => {
    const { core, clock } = await start();
    const key = "agent:run:default";
    const first = await core.sessions.create(ALICE, { key });
    clock.pass(60_001);
    const second = await core.sessions.create(ALICE, { key });
    await core.sessions.destroy(ALICE, second.session.id);
    const third = await core.sessions.create(ALICE, { key });
    const ids = [first, second, third].map(({ session }) => session.id);
    expect(new Set(ids).size).toBe(3);
    expect((await core.sessions.get(ALICE, ids[0] ?? "")).status).toBe("expired");
  });

  it("shows how a session ends, also while its sandbox is destroyed and if that fails", async () => {
    const begun = Promise.withResolvers<void>();
    const goOn = Promise.withResolvers<void>();
    let destroy = async (): Promise<void> => {
      begun.resolve();
      await goOn.promise;
      throw new Error("the engine fell over");
    };
    const { core, clock } = await start({
      wrap: (backend) =>
        overriding(backend, {
          destroy: async (sandbox) => {
            await destroy();
            await backend.destroy(sandbox);
          },
        }),
    });
    const { id } = (await core.sessions.create(ALICE, {})).session;
    const deleted = (await core.sessions.create(ALICE, {})).session.id;
    clock.pass(60_001);
    const round = core.reaper.tick();
    await begun.promise;
    const status = async (): Promise<string> => (await core.sessions.get(ALICE, id)).status;
    expect(await status()).toBe("expired");
    goOn.resolve();
    await round;
    expect(await status()).toBe("expired");
    await expect(core.sessions.renew(ALICE, id)).rejects.toMatchObject({ code: "SESSION_EXPIRED" });
    await core.sessions.destroy(ALICE, deleted).catch(() => undefined);
    destroy = () => Promise.resolve();
    await core.reaper.tick();
    expect(await status()).toBe("expired");
    expect((await core.sessions.get(ALICE, deleted)).status).toBe("destroyed");
  });

  it("refuses a key whose session has another image", async () => {
    const { core } = await start();
    await core.sessions.create(ALICE, { key: "user:a:b", image: "host" });
    await expect(
      core.sessions.create(ALICE, { key: "user:a:b", image: "python:3" }),
    ).rejects.toThrow(code("CONFLICT"));
  });

  it("creates a separate session for the same key of another owner", async () => {
    const { core } = await start();
    const key = "user:a:b";
    const mine = await core.sessions.create(ALICE, { key });
    const theirs = await core.sessions.create(BOB, { key });
    expect(theirs.session.id).not.toBe(mine.session.id);
  });

  it("runs a repeated request once, and refuses its idempotency key for another request", async () => {
    const { core, machine } = await start();
    const [first, again] = await Promise.all([
      core.sessions.create(ALICE, { idempotencyKey: "k1", metadata: { a: "1" } }),
      core.sessions.create(ALICE, { idempotencyKey: "k1", metadata: { a: "1" } }),
    ]);
    expect(again.session.id).toBe(first.session.id);
    expect(machine.sandboxes.size).toBe(1);
    await expect(
      core.sessions.create(ALICE, { idempotencyKey: "k1", metadata: { a: "2" } }),
    ).rejects.toThrow(code("CONFLICT"));
  });

  it("enforces the quota for concurrent requests", async () => {
    const { core, machine } = await start();
    const caller = { ...ALICE, maxSessions: 3 };
    const tries = await Promise.allSettled(
      Array.from({ length: 10 }, () => core.sessions.create(caller, {})),
    );
    expect(tries.filter(({ status }) => status === "fulfilled")).toHaveLength(3);
    expect(tries.filter(({ status }) => status === "rejected")[0]).toMatchObject({
      reason: { code: "QUOTA_EXCEEDED" },
    });
    expect(machine.sandboxes.size).toBe(3);
  });

  it("refuses invalid requests and creates nothing", async () => {
    const { core, machine } = await start({ settings: { allowRootProfile: false } });
    const refusals = [
      [{ image: "nowhere" }, "INVALID_IMAGE"],
      [{ network: true }, "PERMISSION_DENIED"],
      [{ isolation: "strong" }, "PERMISSION_DENIED"],
      [{ profile: "root" }, "PERMISSION_DENIED"],
      [{ limits: { memoryBytes: 2 ** 40 } }, "INVALID_REQUEST"],
    ] as const;
    for (const [options, expected] of refusals)
      await expect(core.sessions.create(ALICE, options)).rejects.toThrow(code(expected));
    expect(machine.sandboxes.size).toBe(0);
    expect((await core.sessions.list(ALICE, {})).rows).toEqual([]);
  });

  it("creates strong isolation if requested or configured, also in the pool", async () => {
    const specs: SandboxSpec[] = [];
    const giving =
      (isolations: Backend["capabilities"]["isolations"]) =>
      (backend: Backend): Backend =>
        overriding(backend, {
          capabilities: { ...backend.capabilities, isolations },
          create: (spec, signal) => {
            specs.push(spec);
            return backend.create(spec, signal);
          },
        });
    const pool = [{ image: "host", profile: "restricted" as const, size: 1 }];
    const both = await start({ wrap: giving(["standard", "strong"]), settings: { pool } });
    await both.core.pool.settled();
    const { session } = await both.core.sessions.create(ALICE, { isolation: "strong" });
    expect(session).toMatchObject({ isolation: "strong", acquireSource: "cold" });
    expect(specs.find(({ id }) => id === session.id)?.isolation).toBe("strong");
    const { session: other } = await both.core.sessions.create(ALICE, { isolation: "standard" });
    expect(other).toMatchObject({ isolation: "standard", acquireSource: "pool" });

    const strong = await start({ wrap: giving(["strong"]) });
    for (const isolation of ["standard", "strong", undefined] as const)
      expect(
        await strong.core.sessions.create(ALICE, isolation === undefined ? {} : { isolation }),
      ).toMatchObject({ session: { isolation: "strong" } });
  });

  it("creates sessions with a network on request, and never from the pool", async () => {
    const specs: SandboxSpec[] = [];
    const giving = (backend: Backend): Backend =>
      overriding(backend, {
        capabilities: { ...backend.capabilities, network: true },
        create: (spec, signal) => {
          specs.push(spec);
          return backend.create(spec, signal);
        },
      });
    const pool = [{ image: "host", profile: "restricted" as const, size: 1 }];
    const { core } = await start({ wrap: giving, settings: { pool } });
    await core.pool.settled();
    const { session } = await core.sessions.create(ALICE, { network: true });
    expect(session).toMatchObject({ network: "engine", acquireSource: "cold" });
    expect(specs.find(({ id }) => id === session.id)?.network).toBe("full");
    const { session: other } = await core.sessions.create(ALICE, { network: false });
    expect(other).toMatchObject({ network: "none", acquireSource: "pool" });
    expect(specs.filter(({ network }) => network === "full")).toHaveLength(1);
  });

  it("leaves turns of the event loop to others between the sessions of a burst", async () => {
    let turn = 0;
    let isOver = false;
    const begun: { readonly number: unknown; readonly turn: number }[] = [];
    const { core } = await start({
      wrapStore: (inner: SessionStore) =>
        overriding(inner, {
          insertSession: async (row, maxSessions) => {
            begun.push({ number: row.metadata["number"], turn });
            return await inner.insertSession(row, maxSessions);
          },
        }),
    });
    const counting = (async () => {
      for (; !isOver; turn++) await turnOfLoop();
    })();
    await Promise.all(
      ["0", "1", "2", "3"].map((number) => core.sessions.create(ALICE, { metadata: { number } })),
    );
    isOver = true;
    await counting;
    expect(begun.map(({ number }) => number)).toEqual(["0", "1", "2", "3"]);
    expect(new Set(begun.map((one) => one.turn)).size).toBe(4);
  });

  it("leaves a failed session, and nothing else, if the backend fails", async () => {
    const failing = (backend: Backend): Backend =>
      overriding(backend, { create: () => Promise.reject(new Error("no")) });
    const { core } = await start({ wrap: failing });
    await expect(core.sessions.create(ALICE, {})).rejects.toThrow("no");
    const { rows } = await core.sessions.list(ALICE, {});
    expect(rows).toMatchObject([
      { status: "failed", endReason: "its sandbox could not be created" },
    ]);
    expect(core.counts().sessions.creating).toBe(0);
  });
});

describe("create() again", () => {
  it("creates a session if the first attempt with this idempotency key failed", async () => {
    let broken = true;
    const wrap = (backend: Backend): Backend =>
      overriding(backend, {
        create: async (...args) => {
          if (broken) throw new Error("no");
          return await backend.create(...args);
        },
      });
    const { core } = await start({ wrap });
    await expect(core.sessions.create(ALICE, { idempotencyKey: "k" })).rejects.toThrow("no");
    broken = false;
    const { session, created } = await core.sessions.create(ALICE, { idempotencyKey: "k" });
    expect({ status: session.status, created }).toEqual({ status: "running", created: true });
  });

  it("requests no more inodes than a small disk can hold", async () => {
    const { core } = await start({
      settings: { defaultLimits: { ...SETTINGS.defaultLimits, diskInodes: 65_536 } },
    });
    const limits = { diskBytes: 4 * 1024 * 1024 };
    const { session } = await core.sessions.create(ALICE, { limits });
    expect(session.limits.diskInodes).toBe(1024);
  });
});

describe("a session of another owner", () => {
  it("does not exist for any call", async () => {
    const { core } = await start();
    const { id } = (await core.sessions.create(ALICE, {})).session;
    const { sessions, execs } = core;
    const { id: exec } = await execs.start(ALICE, id, { command: { kind: "shell", text: "true" } });
    const calls = [
      () => sessions.get(BOB, id),
      () => sessions.destroy(BOB, id),
      () => sessions.pause(BOB, id),
      () => sessions.resume(BOB, id),
      () => sessions.renew(BOB, id),
      () => sessions.stats(BOB, id),
      () => sessions.isolation(BOB, id),
      () => sessions.enter(BOB, id),
      () => execs.start(BOB, id, { command: { kind: "shell", text: "true" } }),
      () => execs.get(BOB, id, exec),
      () => execs.list(BOB, id, {}),
    ];
    for (const call of calls) {
      const [refused] = await Promise.allSettled([Promise.resolve().then<unknown>(call)]);
      const reason = code("SESSION_NOT_FOUND");
      expect({ call: String(call), ...refused }).toMatchObject({ status: "rejected", reason });
    }
    expect((await sessions.list(BOB, {})).rows).toEqual([]);
    expect((await sessions.get(ALICE, id)).status).toBe("running");
  });
});

describe("the lease", () => {
  it("restarts with each use, with the session's own time to live", async () => {
    const { core, clock } = await start();
    const { id } = (await core.sessions.create(ALICE, { ttlMs: 10_000 })).session;
    for (let i = 0; i < 5; i++) {
      clock.pass(9000);
      await fixture.run(id, "true");
    }
    expect((await core.sessions.get(ALICE, id)).expiresAtMs).toBe(clock.wallMs + 10_000);
    await core.execs.settled();
    clock.pass(10_001);
    await expect(core.sessions.enter(ALICE, id)).rejects.toThrow(code("SESSION_EXPIRED"));
  });

  it("is stored with a new session, and not again for a command right after", async () => {
    const { core, clock } = await start();
    const { id } = (await core.sessions.create(ALICE, {})).session;
    const stored = vi.spyOn(fixture.store, "updateSession");
    await fixture.run(id, "true");
    expect(stored).not.toHaveBeenCalled();
    clock.pass(1001);
    await fixture.run(id, "true");
    expect(stored).toHaveBeenCalledOnce();
  });

  it("ends with the lifetime, even if the session is in use", async () => {
    const { core, clock } = await start();
    const { id } = (await core.sessions.create(ALICE, { ttlMs: 400_000 })).session;
    clock.pass(399_000);
    await fixture.run(id, "true");
    expect((await core.sessions.get(ALICE, id)).expiresAtMs).toBe(clock.wallMs + 201_000);
    clock.pass(202_000);
    await expect(fixture.run(id, "true")).rejects.toThrow(code("SESSION_EXPIRED"));
  });

  it("is not affected by jumps of the wall clock", async () => {
    const { core, clock } = await start();
    const { id } = (await core.sessions.create(ALICE, {})).session;
    for (const jump of [3_600_000, -7_200_000, 31_536_000_000, -63_072_000_000]) {
      clock.wallMs += jump;
      await core.reaper.tick();
      expect((await core.sessions.get(ALICE, id)).status).toBe("running");
      expect((await core.sessions.get(ALICE, id)).expiresAtMs).toBe(clock.wallMs + 60_000);
    }
    clock.steadyMs += 60_001;
    await core.reaper.tick();
    expect((await core.sessions.get(ALICE, id)).status).toBe("expired");
  });

  it("can be renewed, also with another time to live", async () => {
    const { core, clock } = await start();
    const { id } = (await core.sessions.create(ALICE, {})).session;
    clock.pass(50_000);
    const renewed = await core.sessions.renew(ALICE, id, 120_000);
    expect(renewed.expiresAtMs).toBe(clock.wallMs + 120_000);
    await fixture.crash();
    expect((await fixture.core.sessions.get(ALICE, id)).ttlMs).toBe(120_000);
  });
});

describe("the reaper", () => {
  it("collects images every ten minutes, and keeps those of sandboxes", async () => {
    const { core, clock, images } = await start();
    await core.sessions.create(ALICE, { image: "python:3", ttlMs: 600_000 });
    await core.reaper.tick();
    expect(images.collections).toEqual([]);
    clock.pass(599_000);
    await core.reaper.tick();
    expect(images.collections).toEqual([]);
    clock.pass(1000);
    await core.sessions.create(ALICE, {});
    await core.reaper.tick();
    await core.reaper.tick();
    expect(images.collections).toEqual([new Set(["fake:host"])]);
  });

  it("destroys expired sessions and marks them as expired", async () => {
    const { core, clock, machine } = await start();
    const { id } = (await core.sessions.create(ALICE, {})).session;
    clock.pass(60_001);
    await core.reaper.tick();
    expect(machine.sandboxes.size).toBe(0);
    expect(await core.sessions.get(ALICE, id)).toMatchObject({
      status: "expired",
      endReason: "its lease ended",
    });
    await expect(fixture.run(id, "true")).rejects.toThrow(code("SESSION_EXPIRED"));
  });

  it("lists an overdue session as expired, after the active ones", async () => {
    const { core, clock } = await start();
    const open = async (caller: Caller, ttlMs?: number): Promise<string> => {
      clock.pass(1);
      const options = ttlMs === undefined ? {} : { ttlMs };
      return (await core.sessions.create(caller, options)).session.id;
    };
    const oldest = await open(BOB, 30_000);
    const living = await open(BOB);
    const newest = await open(BOB, 30_000);
    const others = await open(ALICE, 30_000);
    clock.pass(30_001);
    const list = async (query: SessionQuery): Promise<string[]> =>
      (await core.sessions.list(BOB, query)).rows.map(({ id }) => id);
    expect(await list({ status: "expired" })).toEqual([newest, oldest]);
    expect(await list({ status: "running" })).toEqual([living]);
    expect(await list({ limit: 1 })).toEqual([living]);
    expect(await list({})).toEqual([living, newest, oldest]);
    expect((await fixture.store.getSession(others))?.status).toBe("running");
  });

  it("does not delay a list for a backend that hangs", async () => {
    const answers = Promise.withResolvers<void>();
    const hanging = (backend: Backend): Backend =>
      overriding(backend, {
        destroy: async (...args) => (await answers.promise, await backend.destroy(...args)),
      });
    const { core, clock } = await start({ wrap: hanging });
    await core.sessions.create(ALICE, {});
    clock.pass(60_001);
    const { rows } = await core.sessions.list(ALICE, {});
    expect(rows.map(({ status }) => status)).toEqual(["expired"]);
    answers.resolve();
    await core.reaper.tick();
    expect((await core.sessions.list(ALICE, { status: "expired" })).rows).toHaveLength(1);
  });

  it("does not end a session while a command runs in it", async () => {
    const { core, clock } = await start();
    const { id } = (await core.sessions.create(ALICE, {})).session;
    const command = { kind: "process", argv: ["cat"] } as const;
    const exec = await core.execs.start(ALICE, id, { command, stdin: "open" });
    clock.pass(120_000);
    await core.reaper.tick();
    await (await core.execs.get(ALICE, id, exec.id)).closeStdin();
    expect(await (await core.execs.get(ALICE, id, exec.id)).wait()).toMatchObject({ exitCode: 0 });
    expect((await core.sessions.get(ALICE, id)).expiresAtMs).toBe(clock.wallMs + 60_000);
  });

  it("ends a command with its session when the lifetime is over", async () => {
    const { core, clock } = await start();
    const { id } = (await core.sessions.create(ALICE, {})).session;
    const exec = await core.execs.start(ALICE, id, {
      command: { kind: "shell", text: "sleep 100" },
    });
    clock.pass(600_001);
    await core.reaper.tick();
    expect(await (await core.execs.get(ALICE, id, exec.id)).wait()).toMatchObject({
      endReason: "sandbox_gone",
    });
    expect((await core.sessions.get(ALICE, id)).status).toBe("expired");
  });

  it("marks a session as crashed if its sandbox died", async () => {
    const { core, machine } = await start();
    const { id } = (await core.sessions.create(ALICE, {})).session;
    machine.sandboxes.clear();
    await core.reaper.tick();
    expect(await core.sessions.get(ALICE, id)).toMatchObject({ status: "crashed" });
  });

  it("lets a command complete or expires the session, never half of each", async () => {
    const { core, clock } = await start();
    const outcomes = { ran: 0, refused: 0 };
    // The lease ends, and the reaper runs, at every step of a command's start.
    for (let trial = 0; trial < 200; trial++) {
      const { id } = (await core.sessions.create(ALICE, {})).session;
      clock.pass(59_999);
      const [commandSteps, reaperSteps] = [trial % 8, Math.floor(trial / 8)];
      const running = after(commandSteps, () => fixture.run(id, "echo whole"));
      const reaping = after(reaperSteps, async () => {
        clock.pass(2);
        await core.reaper.tick();
      });
      const [ran] = await Promise.allSettled([running, reaping]);
      const { status } = await core.sessions.get(ALICE, id);
      if (ran.status === "fulfilled") {
        expect({ ...ran.value, session: status }).toMatchObject({
          exitCode: 0,
          endReason: "exited",
          output: "whole\n",
          session: "running",
        });
        outcomes.ran++;
      } else {
        expect({ code: ran.reason.code, status }).toEqual({
          code: "SESSION_EXPIRED",
          status: "expired",
        });
        expect(fixture.machine.sandboxes.size).toBe(0);
        outcomes.refused++;
      }
      await core.sessions.destroy(ALICE, id);
    }
    expect(outcomes.ran).toBeGreaterThan(10);
    expect(outcomes.refused).toBeGreaterThan(10);
  });

  it("runs automatically, every half a minute", async () => {
    vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
    try {
      const { core, clock } = await start();
      const { id } = (await core.sessions.create(ALICE, {})).session;
      clock.pass(60_001);
      vi.advanceTimersByTime(29_999);
      await new Promise(setImmediate);
      expect(fixture.machine.sandboxes.size).toBe(1);
      vi.advanceTimersByTime(1);
      await expect.poll(() => fixture.machine.sandboxes.size).toBe(0);
      expect((await core.sessions.get(ALICE, id)).status).toBe("expired");
    } finally {
      vi.useRealTimers();
    }
  });

  it("shows a crash only when nothing of the sandbox is left", async () => {
    let broken = true;
    const wrap = (backend: Backend): Backend =>
      overriding(backend, {
        destroy: async (id) => {
          if (broken) throw new Error("busy");
          await backend.destroy(id);
        },
      });
    const { core, machine } = await start({ wrap });
    const { id } = (await core.sessions.create(ALICE, {})).session;
    machine.sandboxes.clear();
    await core.reaper.tick();
    expect((await core.sessions.get(ALICE, id)).status).toBe("destroying");
    broken = false;
    await core.reaper.tick();
    expect((await core.sessions.get(ALICE, id)).status).toBe("crashed");
  });

  it("retries failed destroys", async () => {
    let broken = true;
    const wrap = (backend: Backend): Backend =>
      overriding(backend, {
        destroy: async (id) => {
          if (broken) throw new Error("busy");
          await backend.destroy(id);
        },
      });
    const { core, machine } = await start({ wrap });
    const { id } = (await core.sessions.create(ALICE, {})).session;
    await expect(core.sessions.destroy(ALICE, id)).rejects.toThrow("busy");
    expect((await core.sessions.get(ALICE, id)).status).toBe("destroying");
    broken = false;
    await core.reaper.tick();
    expect((await core.sessions.get(ALICE, id)).status).toBe("destroyed");
    expect(machine.sandboxes.size).toBe(0);
  });

  it("deletes sessions and their output after the retention time", async () => {
    const { core, clock } = await start();
    const { id } = (await core.sessions.create(ALICE, {})).session;
    const { id: exec } = await fixture.run(id, "echo kept");
    await core.sessions.destroy(ALICE, id);
    clock.pass(3_599_000);
    await core.reaper.tick();
    const { page } = await (
      await core.execs.get(ALICE, id, exec)
    ).read({ offset: 0, maxBytes: 100 });
    expect(page.chunks).toHaveLength(1);
    clock.pass(2000);
    await core.reaper.tick();
    await expect(core.sessions.get(ALICE, id)).rejects.toThrow(code("SESSION_NOT_FOUND"));
  });
});

describe("destroy()", () => {
  it("ends the session, is idempotent, and does not find an unknown one", async () => {
    const { core, machine } = await start();
    const { id } = (await core.sessions.create(ALICE, {})).session;
    await Promise.all([core.sessions.destroy(ALICE, id), core.sessions.destroy(ALICE, id)]);
    await core.sessions.destroy(ALICE, id);
    expect(machine.sandboxes.size).toBe(0);
    expect((await core.sessions.get(ALICE, id)).status).toBe("destroyed");
    await expect(core.sessions.destroy(ALICE, "ses_x")).rejects.toThrow(code("SESSION_NOT_FOUND"));
    await expect(fixture.run(id, "true")).rejects.toThrow(code("SESSION_NOT_FOUND"));
  });

  it("aborts a session that is being created", async () => {
    const making = Promise.withResolvers<string>();
    const wrap = (backend: Backend): Backend =>
      overriding(backend, {
        create: (spec, signal) => {
          making.resolve(spec.id);
          return new Promise((_, reject) => {
            signal?.addEventListener("abort", () => reject(new Error("given up")));
          });
        },
      });
    const { core } = await start({ wrap });
    const creating = core.sessions.create(ALICE, { key: "user:a:b" });
    creating.catch(() => undefined);
    await making.promise;
    const [row] = (await core.sessions.list(ALICE, {})).rows;
    expect(row?.status).toBe("creating");
    const alsoWaiting = core.sessions.create(ALICE, { key: "user:a:b" });
    alsoWaiting.catch(() => undefined);
    await new Promise(setImmediate);
    await core.sessions.destroy(ALICE, row?.id ?? "");
    await expect(creating).rejects.toThrow(code("CONFLICT"));
    await expect(alsoWaiting).rejects.toThrow(code("CONFLICT"));
    expect((await core.sessions.get(ALICE, row?.id ?? "")).status).toBe("destroyed");
  });

  it("ends running commands as sandbox_gone, and waiting ones as not started", async () => {
    const { core } = await start();
    const { id } = (await core.sessions.create(ALICE, {})).session;
    const command = { kind: "shell", text: "sleep 100" } as const;
    const running = await core.execs.start(ALICE, id, { command });
    const waiting = await core.execs.start(ALICE, id, { command });
    expect([running.row.status, waiting.row.status]).toEqual(["running", "queued"]);
    await core.sessions.destroy(ALICE, id);
    const endOf = async (exec: string) => await (await core.execs.get(ALICE, id, exec)).wait();
    expect(await endOf(running.id)).toMatchObject({ status: "done", endReason: "sandbox_gone" });
    expect(await endOf(waiting.id)).toMatchObject({ status: "done", endReason: "not_started" });
  });
});

it("the ends of queued commands are stored together when their session or shell ends", async () => {
  const queued = 50;
  let waiting = 0;
  let all = Promise.withResolvers<void>();
  const { core } = await start({
    wrapStore: (store: SessionStore) =>
      overriding(store, {
        updateExec: async (sessionId, id, fence, patch) => {
          if (patch.endReason === "not_started" || patch.endReason === "cancelled") {
            waiting += 1;
            if (waiting === queued) all.resolve();
            await all.promise;
          }
          await store.updateExec(sessionId, id, fence, patch);
        },
      }),
  });
  const { id } = (await core.sessions.create(ALICE, {})).session;
  const queue = async (): Promise<void> => {
    const command = { kind: "shell", text: "sleep 100" } as const;
    for (let n = 0; n <= queued; n++) await core.execs.start(ALICE, id, { command });
  };
  await queue();
  await core.shells.close(ALICE, id, "default");
  expect(waiting).toBeGreaterThanOrEqual(queued);
  waiting = 0;
  all = Promise.withResolvers<void>();
  await queue();
  await core.sessions.destroy(ALICE, id);
  expect(waiting).toBeGreaterThanOrEqual(queued);
});

describe("pause() and resume()", () => {
  it("refuse the use of a paused session and allow it afterwards", async () => {
    const { core } = await start();
    const { id } = (await core.sessions.create(ALICE, {})).session;
    expect((await core.sessions.pause(ALICE, id)).status).toBe("paused");
    expect((await core.sessions.pause(ALICE, id)).status).toBe("paused");
    await expect(fixture.run(id, "true")).rejects.toThrow(code("CONFLICT"));
    await fixture.crash();
    expect((await fixture.core.sessions.get(ALICE, id)).status).toBe("paused");
    expect((await fixture.core.sessions.resume(ALICE, id)).status).toBe("running");
    expect(await fixture.run(id, "echo on")).toMatchObject({ output: "on\n" });
  });

  it("let a paused session expire, whatever is frozen in it", async () => {
    const { core, clock } = await start();
    const { id } = (await core.sessions.create(ALICE, {})).session;
    await core.execs.start(ALICE, id, { command: { kind: "shell", text: "sleep 100" } });
    await core.sessions.pause(ALICE, id);
    clock.pass(60_001);
    await core.reaper.tick();
    expect((await core.sessions.get(ALICE, id)).status).toBe("expired");
  });
});

describe("a session whose insertion succeeded without a response from the store", () => {
  /** A store that does not respond after the insertion until the test releases it. */
  async function begin(isSilentAfter: boolean) {
    const failure = new SandboxError("INTERNAL_ERROR", "the connection broke");
    const state = { isBreaking: true, isSilent: false, isTaken: false };
    const { core, store } = await start({
      wrapStore: (inner: SessionStore) =>
        overriding(inner, {
          insertSession: async (row, maxSessions) => {
            const written = await inner.insertSession(row, maxSessions);
            if (!state.isBreaking) return written;
            state.isBreaking = false;
            state.isSilent = isSilentAfter;
            throw failure;
          },
          getSession: async (id) => {
            if (state.isSilent) throw failure;
            const row = await inner.getSession(id);
            return row && state.isTaken ? { ...row, fence: row.fence + 1 } : row;
          },
        }),
    });
    const options = { idempotencyKey: "once" };
    await expect(core.sessions.create(ALICE, options)).rejects.toBe(failure);
    const statuses = async (): Promise<readonly string[]> =>
      (await store.listSessions({ limit: 10 })).rows.map(({ status }) => status);
    return { core, options, state, statuses };
  }

  it("is marked as failed as soon as the store responds", async () => {
    const { core, statuses } = await begin(false);
    await expect.poll(statuses).toEqual(["failed"]);
    expect(core.counts().sessions.creating).toBe(0);
    await core.sessions.create({ ...ALICE, maxSessions: 1 }, {});
  });

  it("is ended by the reaper if the store is silent for longer", async () => {
    const { core, state, statuses } = await begin(true);
    await core.reaper.tick();
    expect(await statuses()).toEqual(["creating"]);
    state.isSilent = false;
    await core.reaper.tick();
    expect(await statuses()).toEqual(["failed"]);
  });

  it("is left to the daemon that took it over", async () => {
    const { core, state, statuses } = await begin(true);
    await core.reaper.tick();
    state.isSilent = false;
    state.isTaken = true;
    await core.reaper.tick();
    state.isTaken = false;
    await core.reaper.tick();
    expect(await statuses()).toEqual(["creating"]);
  });

  it("does not block the repeated request", async () => {
    const { core, options, state, statuses } = await begin(true);
    state.isSilent = false;
    const { session, created } = await core.sessions.create(ALICE, options);
    expect([session.status, created]).toEqual(["running", true]);
    expect(await statuses()).toEqual(["running", "failed"]);
  });
});

describe("a session whose sandbox was made while the store failed", () => {
  const options = { idempotencyKey: "once", key: "user:a:b" };

  async function begin() {
    const store = { fails: true };
    const { core, machine } = await start({
      wrapStore: (inner) =>
        overriding(inner, {
          updateSession: async (...change) => {
            if (store.fails) throw new Error("the connection is lost");
            return await inner.updateSession(...change);
          },
        }),
    });
    await expect(core.sessions.create(ALICE, options)).rejects.toThrow("the connection is lost");
    expect([core.counts().sessions.creating, machine.sandboxes.size]).toEqual([1, 1]);
    return { core, machine, store };
  }

  it("is ended by the reaper as soon as the store works", async () => {
    const { core, machine, store } = await begin();
    await core.reaper.tick();
    expect([core.counts().sessions.creating, machine.sandboxes.size]).toEqual([1, 1]);
    store.fails = false;
    await core.reaper.tick();
    expect([core.counts().sessions.creating, machine.sandboxes.size]).toEqual([0, 0]);
    const { rows } = await core.sessions.list(ALICE, {});
    expect(rows).toMatchObject([
      { status: "failed", endReason: "its sandbox could not be created" },
    ]);
  });

  it.each([{ idempotencyKey: "once" }, { key: "user:a:b" }])(
    "makes way for another request with its %o",
    async (repeated) => {
      const { core, machine, store } = await begin();
      store.fails = false;
      const again = "key" in repeated ? repeated : options;
      const { session, created } = await core.sessions.create(ALICE, again);
      expect([session.status, created]).toEqual(["running", true]);
      expect([...machine.sandboxes.keys()]).toEqual([session.id]);
    },
  );

  it("is ended by the reaper, too, if its owner could not destroy it", async () => {
    const { core, machine, store } = await begin();
    const { rows } = await core.sessions.list(ALICE, {});
    await expect(core.sessions.destroy(ALICE, rows[0]!.id)).rejects.toThrow("lost");
    store.fails = false;
    await core.reaper.tick();
    expect([core.counts().sessions.creating, machine.sandboxes.size]).toEqual([0, 0]);
  });
});

describe("the pool", () => {
  const settings = { pool: [{ image: "host", profile: "restricted" as const, size: 2 }] };

  it("hands out a sandbox once and creates another", async () => {
    const { core, machine } = await start({ settings });
    await core.pool.settled();
    const pooled = new Set(machine.sandboxes.keys());
    expect(pooled.size).toBe(2);
    const { session } = await core.sessions.create(ALICE, {});
    expect(session.acquireSource).toBe("pool");
    expect(pooled.has(session.id)).toBe(true);
    await core.pool.settled();
    expect(machine.sandboxes.size).toBe(3);
    await core.sessions.destroy(ALICE, session.id);
    expect(core.counts().pooled).toBe(2);
  });

  it("is not used for requests with special settings", async () => {
    const { core } = await start({ settings });
    await core.pool.settled();
    for (const options of [
      { env: { A: "1" } },
      { limits: { pids: 32 } },
      { image: "python:3" },
      { profile: "root" as const },
      { workspaceId: "my-files" },
    ])
      expect((await core.sessions.create(ALICE, options)).session.acquireSource).toBe("cold");
  });

  it("never hands out a dead sandbox, nor one of an outdated image", async () => {
    const { core, machine, images } = await start({ settings });
    await core.pool.settled();
    const [first] = machine.sandboxes.keys();
    machine.sandboxes.get(first ?? "")?.sandbox.destroy();
    machine.sandboxes.delete(first ?? "");
    const { session } = await core.sessions.create(ALICE, {});
    expect(session.id).not.toBe(first);
    expect(await fixture.run(session.id, "echo alive")).toMatchObject({ output: "alive\n" });
    await core.pool.settled();
    images.digests.set("host", "fake:newer");
    const { session: cold } = await core.sessions.create(ALICE, {});
    expect(cold.acquireSource).toBe("cold");
  });

  it("replaces sandboxes of an outdated image, and no longer counts them", async () => {
    const { core, machine, images } = await start({ settings });
    await core.pool.settled();
    const old = new Set(machine.sandboxes.keys());
    images.move("host", "fake:newer");
    await core.pool.settled();
    expect(core.counts().pooled).toBe(2);
    expect([...machine.sandboxes.keys()].filter((id) => old.has(id))).toEqual([]);
    const { session } = await core.sessions.create(ALICE, {});
    expect(session).toMatchObject({ acquireSource: "pool", imageDigest: "fake:newer" });
  });

  it("keeps a sandbox that no session got, because no client knows it", async () => {
    const { core, machine } = await start({ settings });
    await core.pool.settled();
    const pooled = new Set(machine.sandboxes.keys());
    const { session } = await core.sessions.create(ALICE, { key: "user:a:b", env: { A: "1" } });
    const one = { ...ALICE, maxSessions: 1 };
    await expect(core.sessions.create(one, {})).rejects.toMatchObject({ code: "QUOTA_EXCEEDED" });
    // Only the store finds the key's session: two concurrent requests.
    const both = { idempotencyKey: "once" };
    const made = await Promise.all([1, 2].map(() => core.sessions.create(ALICE, both)));
    expect(made.filter(({ created }) => created)).toHaveLength(1);
    const [first, second] = made.map((each) => each.session.id);
    expect(first).toBe(second);
    await core.pool.settled();
    expect(pooled.has(first ?? "")).toBe(true);
    expect([...machine.sandboxes.keys()].filter((id) => pooled.has(id))).toHaveLength(2);
    expect(core.counts().pooled).toBe(2);
    expect(machine.sandboxes.size).toBe(4);
    expect(session.acquireSource).toBe("cold");
  });

  it("keeps a sandbox if the store fails, and gives it to a session only once", async () => {
    const failure = new SandboxError("STORAGE_FULL", "no space left");
    let isAnswerLost = false;
    let isFailing = true;
    const { core, machine } = await start({
      settings,
      wrapStore: (store: SessionStore) =>
        overriding(store, {
          insertSession: async (row, maxSessions) => {
            if (isFailing && !isAnswerLost) throw failure;
            const written = await store.insertSession(row, maxSessions);
            if (isFailing) throw failure;
            return written;
          },
        }),
    });
    await core.pool.settled();
    const pooled = new Set(machine.sandboxes.keys());
    await expect(core.sessions.create(ALICE, {})).rejects.toBe(failure);
    expect(new Set(machine.sandboxes.keys())).toEqual(pooled);
    isAnswerLost = true;
    await expect(core.sessions.create(ALICE, {})).rejects.toBe(failure);
    isFailing = false;
    const { session } = await core.sessions.create(ALICE, {});
    expect(session).toMatchObject({ acquireSource: "pool", status: "running" });
    // The sandbox whose response was lost belonged to a session that no client got.
    expect([...machine.sandboxes.keys()].filter((id) => pooled.has(id))).toEqual([session.id]);
  });

  it("creates nothing from the substitute of an image, and fills when the image arrives", async () => {
    const pool = [{ image: "python", profile: "restricted" as const, size: 2 }];
    const { core, machine, images } = await start({ settings: { pool } });
    images.substitutes.set("python", "host");
    core.pool.refill();
    await core.pool.settled();
    expect(machine.sandboxes.size).toBe(0);
    const { session: cold } = await core.sessions.create(ALICE, { image: "python" });
    expect(cold).toMatchObject({ image: "host", acquireSource: "cold" });

    machine.images.add("python");
    images.move("python", "fake:arrived");
    await core.pool.settled();
    expect(core.counts().pooled).toBe(2);
    const { session } = await core.sessions.create(ALICE, { image: "python" });
    expect(session).toMatchObject({ image: "python", acquireSource: "pool" });

    machine.images.delete("python");
    core.pool.refill();
    await core.pool.settled();
    expect(core.counts().pooled).toBe(0);
  });

  it("notices a change of the image while it is being filled", async () => {
    const { core, images, machine } = await start({ settings });
    images.move("host", "fake:second");
    core.pool.refill();
    images.move("host", "fake:third");
    await core.pool.settled();
    expect(
      new Set([...machine.sandboxes.values()].map(({ handle }) => handle.imageDigest)),
    ).toEqual(new Set(["fake:third"]));
    expect(core.counts().pooled).toBe(2);
  });

  it("drops sandboxes that died while they waited", async () => {
    const { core, machine } = await start({ settings });
    await core.pool.settled();
    const [first = ""] = machine.sandboxes.keys();
    machine.sandboxes.get(first)?.sandbox.destroy();
    machine.sandboxes.delete(first);
    await core.reaper.tick();
    await core.pool.settled();
    expect(core.counts().pooled).toBe(2);
    expect(machine.sandboxes.size).toBe(2);
  });

  it("creates a session even if another daemon removed its sandboxes as orphans", async () => {
    const { core, machine, store } = await start({ settings });
    await core.pool.settled();
    const pooled = [...machine.sandboxes.keys()];
    // They still run, but no record says that they belong to this daemon.
    for (const id of pooled) await store.deleteSideSandbox(id);
    const { session } = await core.sessions.create(ALICE, {});
    expect(session).toMatchObject({ status: "running", acquireSource: "cold" });
    expect(await fixture.run(session.id, "echo alive")).toMatchObject({ output: "alive\n" });
    for (const id of pooled) expect(machine.sandboxes.has(id)).toBe(false);
  });

  it("leaves nothing of a sandbox whose creation failed, in the store or on the machine", async () => {
    let isBroken = true;
    const { core, machine, store } = await start({
      settings,
      wrap: (backend) =>
        overriding(backend, {
          create: async (spec, signal) => {
            const handle = await backend.create(spec, signal);
            if (isBroken) throw new Error("the engine answered too late");
            return handle;
          },
        }),
    });
    await core.pool.settled();
    expect([...machine.sandboxes.keys()]).toEqual([]);
    expect([...(await store.sandboxesAt("fake:here"))]).toEqual([]);
    isBroken = false;
    core.pool.refill();
    await core.pool.settled();
    expect(core.counts().pooled).toBe(2);
  });

  it.each(["before", "after"])(
    "leaves nothing of a sandbox if a daemon was killed with %s it became a session's",
    async (moment) => {
      const reached = Promise.withResolvers<string>();
      const { core, machine } = await start({
        settings,
        wrapStore: (store: SessionStore) =>
          overriding(store, {
            insertSession: async (row, maxSessions) => {
              if (moment === "after") await store.insertSession(row, maxSessions);
              reached.resolve(row.id);
              return await new Promise<never>(() => undefined);
            },
          }),
      });
      await core.pool.settled();
      void core.sessions.create(ALICE, {});
      const id = await reached.promise;
      expect(machine.sandboxes.has(id)).toBe(true);
      await fixture.crash({});
      expect(machine.sandboxes.size).toBe(0);
      const { rows } = await fixture.core.sessions.list(ALICE, { limit: 10 });
      expect(rows.map((row) => [row.id, row.status])).toEqual(
        moment === "after" ? [[id, "failed"]] : [],
      );
    },
  );

  it("is gone after a stop, and is cleaned up after a crash", async () => {
    const { core, machine } = await start({ settings });
    await core.pool.settled();
    await fixture.crash({});
    expect(machine.sandboxes.size).toBe(0);
  });
});
