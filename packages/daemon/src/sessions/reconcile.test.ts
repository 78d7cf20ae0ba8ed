import { afterEach, describe, expect, it } from "vitest";
import { FakeBackend, MANY } from "@sandkasten/testkit";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { SandboxError } from "@sandkasten/protocol";
import type { Backend } from "../ports/backend.ts";
import { ALICE, CoreFixture, overriding, SETTINGS } from "./testing/core-fixture.ts";
import type { CoreOptions } from "./testing/core-fixture.ts";

const POOL = [{ image: "host", profile: "restricted", size: 1 }] as const;

let fixture: CoreFixture;
afterEach(async () => {
  await fixture[Symbol.asyncDispose]();
});

describe("a start after a crash", () => {
  it("adopts live sandboxes with their leases, and removes orphans", async () => {
    fixture = await CoreFixture.start();
    const { session } = await fixture.core.sessions.create(ALICE, { key: "user:a:b" });
    const orphan = { id: "sbx_orphan", image: "host", profile: "restricted", env: {} } as const;
    await new FakeBackend(fixture.machine).create({ ...orphan, limits: SETTINGS.defaultLimits });
    fixture.clock.pass(30_000);
    await fixture.crash();
    expect([...fixture.machine.sandboxes.keys()]).toEqual([session.id]);
    const adopted = await fixture.core.sessions.get(ALICE, session.id);
    expect(adopted).toMatchObject({ status: "running", expiresAtMs: session.expiresAtMs });
    expect((await fixture.core.sessions.create(ALICE, { key: "user:a:b" })).session.id).toBe(
      session.id,
    );
  });

  it("adopts the sandbox of an older daemon, whose id differs from its session's", async () => {
    fixture = await CoreFixture.start();
    const { session } = await fixture.core.sessions.create(ALICE, {});
    const { expiresAtMs: _, maxExpiresAtMs: __, ...row } = session;
    const ids = { id: "ses_older", sandboxId: "sbx_older" };
    const older = { ...row, ...ids, status: "running" } as const;
    const { image, profile, limits, sandboxId } = older;
    const spec = { id: sandboxId, image, profile, limits, env: {} };
    await new FakeBackend(fixture.machine).create(spec);
    await fixture.store.insertSession(older, MANY);
    await fixture.crash();
    await fixture.core.reaper.tick();
    expect((await fixture.run(older.id, "echo on")).output).toBe("on\n");
    await fixture.core.sessions.destroy(ALICE, older.id);
    expect([...fixture.machine.sandboxes.keys()]).toEqual([session.id]);
  });

  it("marks sessions without a sandbox as crashed, and unfinished ones as failed", async () => {
    fixture = await CoreFixture.start();
    const { session } = await fixture.core.sessions.create(ALICE, {});
    const { expiresAtMs: _, maxExpiresAtMs: __, ...row } = session;
    const half = { ...row, id: "ses_half", status: "creating" } as const;
    await fixture.store.insertSession(half, MANY);
    fixture.machine.sandboxes.clear();
    await fixture.crash();
    expect((await fixture.core.sessions.get(ALICE, session.id)).status).toBe("crashed");
    expect((await fixture.core.sessions.get(ALICE, "ses_half")).status).toBe("failed");
    expect(fixture.core.counts().sessions.running).toBe(0);
  });

  it("ends the commands of a sandbox that is gone, and distinguishes those that never started", async () => {
    fixture = await CoreFixture.start();
    const { id } = (await fixture.core.sessions.create(ALICE, {})).session;
    const command = { kind: "shell", text: "sleep 100" } as const;
    const running = await fixture.core.execs.start(ALICE, id, { command });
    const waiting = await fixture.core.execs.start(ALICE, id, { command });
    expect([running.row.status, waiting.row.status]).toEqual(["running", "queued"]);
    await fixture.stop("keep");
    fixture.machine.sandboxes.clear();
    await fixture.crash();
    const endOf = async (exec: string) => (await fixture.core.execs.get(ALICE, id, exec)).row;
    expect(await endOf(running.id)).toMatchObject({ status: "done", endReason: "sandbox_gone" });
    expect(await endOf(waiting.id)).toMatchObject({ status: "done", endReason: "not_started" });
  });

  it("finishes interrupted destroys", async () => {
    fixture = await CoreFixture.start();
    const { session } = await fixture.core.sessions.create(ALICE, {});
    await fixture.store.updateSession(session.id, session.fence, ["running"], {
      status: "destroying",
    });
    await fixture.crash();
    expect((await fixture.core.sessions.get(ALICE, session.id)).status).toBe("destroyed");
    expect(fixture.machine.sandboxes.size).toBe(0);
  });

  it("expires overdue sessions at once", async () => {
    fixture = await CoreFixture.start();
    const { session } = await fixture.core.sessions.create(ALICE, {});
    fixture.clock.pass(60_001);
    await fixture.crash();
    expect((await fixture.core.sessions.get(ALICE, session.id)).status).toBe("expired");
  });

  it("refuses a lost database instead of destroying live sandboxes", async () => {
    fixture = await CoreFixture.start();
    await fixture.core.sessions.create(ALICE, {});
    await fixture.stop("keep");
    for (const name of ["sandkasten.db", "sandkasten.db-wal"])
      await rm(join(fixture.directory, name), { force: true });
    // However often it is tried: a refused start does not make the database count as used.
    for (let times = 0; times < 2; times++)
      await expect(fixture.crash()).rejects.toMatchObject({ code: "CONFLICT" });
    expect(fixture.machine.sandboxes.size).toBe(1);
  });
});

describe("stop()", () => {
  it("destroys all sessions if configured", async () => {
    fixture = await CoreFixture.start();
    const { session } = await fixture.core.sessions.create(ALICE, {});
    await fixture.restart("destroy");
    expect(fixture.machine.sandboxes.size).toBe(0);
    expect(await fixture.core.sessions.get(ALICE, session.id)).toMatchObject({
      status: "destroyed",
      endReason: "the daemon was stopped",
    });
  });
});

describe("during the take-over from an earlier daemon", () => {
  /** A backend whose list is held back until the test releases it. */
  function slowList() {
    const gate = Promise.withResolvers<void>();
    const wrap = (backend: Backend): Backend =>
      overriding(backend, {
        list: async () => {
          await gate.promise;
          return await backend.list();
        },
      });
    return { options: { wrap, inBackground: true } satisfies CoreOptions, gate };
  }

  async function orphan(id: string): Promise<void> {
    const spec = { id, image: "host", profile: "restricted", env: {} } as const;
    await new FakeBackend(fixture.machine).create({ ...spec, limits: SETTINGS.defaultLimits });
  }

  it("a requested session is adopted before its turn, with its commands", async () => {
    fixture = await CoreFixture.start();
    const { session } = await fixture.core.sessions.create(ALICE, { key: "user:a:b" });
    await fixture.run(session.id, "cd /tmp");
    const command = { kind: "process", argv: ["cat"] } as const;
    const exec = await fixture.core.execs.start(ALICE, session.id, { command, stdin: "open" });
    const { options, gate } = slowList();
    await fixture.restart("keep", options);
    const { sessions, execs } = fixture.core;
    expect((await sessions.create(ALICE, { key: "user:a:b" })).session.id).toBe(session.id);
    expect((await fixture.run(session.id, "pwd")).output).toBe("/tmp\n");
    const waiting = (await execs.get(ALICE, session.id, exec.id)).wait();
    await (await execs.get(ALICE, session.id, exec.id)).closeStdin();
    expect(await waiting).toMatchObject({ exitCode: 0 });
    gate.resolve();
  });

  it("commands and their output are found before their session is used", async () => {
    fixture = await CoreFixture.start();
    const { id } = (await fixture.core.sessions.create(ALICE, {})).session;
    const command = { kind: "process", argv: ["cat"] } as const;
    const exec = await fixture.core.execs.start(ALICE, id, { command, stdin: "open" });
    const { options, gate } = slowList();
    await fixture.restart("keep", options);
    const { execs } = fixture.core;
    const seen: number[] = [];
    const following = (async () => {
      for await (const page of (await execs.get(ALICE, id, exec.id)).follow({ offset: 0 }))
        seen.push(page.nextOffset);
    })();
    await (await execs.get(ALICE, id, exec.id)).writeStdin(Buffer.from("hello"));
    await (await execs.get(ALICE, id, exec.id)).closeStdin();
    await following;
    expect(seen.at(-1)).toBe(5);
    gate.resolve();
  });

  it("a sandbox that an engine created late for a killed daemon is removed soon after", async () => {
    fixture = await CoreFixture.start({ settings: { pool: POOL } });
    const { session } = await fixture.core.sessions.create(ALICE, {});
    await fixture.core.pool.settled();
    const own = [...fixture.machine.sandboxes.keys()];
    await orphan("sbx_late");
    await fixture.core.reaper.tick();
    await fixture.core.pool.settled();
    expect([...fixture.machine.sandboxes.keys()].toSorted()).toEqual(own.toSorted());
    expect((await fixture.run(session.id, "echo here")).output).toBe("here\n");
  });

  it("sessions are created at once, within the quota, and never count as orphans", async () => {
    fixture = await CoreFixture.start();
    const { id } = (await fixture.core.sessions.create(ALICE, {})).session;
    await orphan("sbx_orphan");
    const { options, gate } = slowList();
    await fixture.restart("keep", { ...options, settings: { pool: POOL } });
    const { sessions, pool } = fixture.core;
    const two = { ...ALICE, maxSessions: 2 };
    const made = await sessions.create(two, { limits: { pids: 32 } });
    await expect(sessions.create(two, {})).rejects.toMatchObject({ code: "QUOTA_EXCEEDED" });
    await pool.settled();
    gate.resolve();
    await expect.poll(() => [...fixture.machine.sandboxes.keys()]).not.toContain("sbx_orphan");
    expect(pool.size).toBe(1);
    expect(fixture.machine.sandboxes.size).toBe(3);
    expect((await fixture.run(made.session.id, "echo new")).output).toBe("new\n");
    expect((await fixture.run(id, "echo old")).output).toBe("old\n");
  });

  it("a session with a workspace waits until nothing else can use its disk", async () => {
    fixture = await CoreFixture.start();
    await fixture.core.sessions.create(ALICE, { workspaceId: "notes" });
    const { options, gate } = slowList();
    await fixture.stop("keep");
    fixture.machine.sandboxes.clear();
    await fixture.crash(options);
    let isMade = false;
    const making = fixture.core.sessions.create(ALICE, { workspaceId: "notes" });
    void making.then(() => (isMade = true));
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(isMade).toBe(false);
    gate.resolve();
    expect((await making).session.status).toBe("running");
  });

  it("a session whose sandbox is gone is not listed as running", async () => {
    fixture = await CoreFixture.start();
    const { id } = (await fixture.core.sessions.create(ALICE, { key: "user:a:b" })).session;
    await fixture.stop("keep");
    fixture.machine.sandboxes.clear();
    const { options, gate } = slowList();
    await fixture.crash(options);
    const listed = fixture.core.sessions.list(ALICE, {});
    const again = fixture.core.sessions.create(ALICE, { key: "user:a:b" });
    gate.resolve();
    expect(["destroying", "crashed"]).toContain((await listed).rows[0]?.status);
    expect((await again).session.id).not.toBe(id);
    await expect(fixture.run(id, "true")).rejects.toBeInstanceOf(SandboxError);
    await expect
      .poll(async () => (await fixture.core.sessions.get(ALICE, id)).status)
      .toBe("crashed");
  });

  it("a repeated request gets a new session if a killed daemon was creating it", async () => {
    fixture = await CoreFixture.start();
    const request = { idempotencyKey: "once" };
    const { session } = await fixture.core.sessions.create(ALICE, request);
    const { expiresAtMs: _, maxExpiresAtMs: __, ...row } = session;
    await fixture.store.updateSession(row.id, row.fence, ["running"], { status: "destroying" });
    await fixture.store.updateSession(row.id, row.fence, ["destroying"], { status: "failed" });
    const half = { ...row, id: "ses_half", status: "creating" } as const;
    await fixture.store.insertSession(half, MANY);
    const { options, gate } = slowList();
    await fixture.crash(options);
    const repeated = fixture.core.sessions.create(ALICE, request);
    gate.resolve();
    const made = await repeated;
    expect(made).toMatchObject({ created: true, session: { status: "running" } });
    expect((await fixture.run(made.session.id, "echo here")).output).toBe("here\n");
    expect((await fixture.core.sessions.get(ALICE, "ses_half")).status).toBe("failed");
    expect((await fixture.core.sessions.create(ALICE, request)).session.id).toBe(made.session.id);
  });

  it.each([
    ["fails", () => Promise.reject(new SandboxError("SANDBOX_UNREACHABLE", "no answer"))],
    ["hangs", async (stopped: Promise<void>) => await stopped],
  ])(
    "a sandbox without an answer delays no other session when its network %s",
    async (_, answer) => {
      fixture = await CoreFixture.start({ network: ["full"] });
      const { session: mute } = await fixture.core.sessions.create(ALICE, { network: true });
      const { session: other } = await fixture.core.sessions.create(ALICE, {});
      const gate = Promise.withResolvers<void>();
      let asked = 0;
      const wrap = (backend: Backend): Backend =>
        overriding(backend, {
          open: async (id, fence) => {
            if (id === mute.id) {
              asked += 1;
              await answer(gate.promise);
            }
            return await backend.open(id, fence);
          },
        });
      await fixture.restart("keep", { wrap, network: ["full"] });
      const listed = (await fixture.core.sessions.list(ALICE, {})).rows;
      expect(listed.map(({ status }) => status)).toEqual(["running", "running"]);
      expect((await fixture.run(other.id, "echo on")).output).toBe("on\n");
      const { session: made } = await fixture.core.sessions.create(ALICE, {});
      expect((await fixture.run(made.id, "echo new")).output).toBe("new\n");
      expect(asked).toBe(1);
      gate.resolve();
      await fixture.core.sessions.destroy(ALICE, mute.id);
    },
  );

  it("a stop does not wait for a sandbox that does not open its network", async () => {
    fixture = await CoreFixture.start({ network: ["full"] });
    await fixture.core.sessions.create(ALICE, { network: true });
    const asked = Promise.withResolvers<void>();
    const wrap = (backend: Backend): Backend =>
      overriding(backend, {
        open: async (...args) => {
          const channel = await backend.open(...args);
          const closed = Promise.withResolvers<never>();
          return overriding(channel, {
            openNetwork: async () => {
              asked.resolve();
              return await closed.promise;
            },
            close: () => {
              closed.reject(new SandboxError("SANDBOX_UNREACHABLE", "the channel was closed"));
              channel.close();
            },
          });
        },
      });
    await fixture.restart("keep", { wrap, network: ["full"] });
    await asked.promise;
    await fixture.restart("keep", {});
  });

  it("a stop does not wait for the take-over", async () => {
    fixture = await CoreFixture.start();
    const { id } = (await fixture.core.sessions.create(ALICE, {})).session;
    const { options, gate } = slowList();
    await fixture.restart("keep", options);
    const stopped = fixture.stop("keep");
    gate.resolve();
    await stopped;
    await fixture.crash({});
    expect((await fixture.run(id, "echo on")).output).toBe("on\n");
  });
});

describe("leases", () => {
  const HOUR_MS = 3_600_000;
  const YEAR_MS = 365 * 24 * HOUR_MS;

  /** The daemon's machine reboots; sandboxes on another one keep running. */
  async function reboot(offMs: number, jumpMs = 0): Promise<void> {
    await fixture.crash({
      ...fixture.options,
      beforeOpen: () => fixture.clock.boot(offMs, jumpMs),
    });
  }

  it.each([HOUR_MS, -HOUR_MS, YEAR_MS, -YEAR_MS])(
    "are unaffected when the clock is set by %i ms, before and after a restart",
    async (jump) => {
      fixture = await CoreFixture.start();
      const { id } = (await fixture.core.sessions.create(ALICE, {})).session;
      fixture.clock.pass(20_000);
      fixture.clock.wallMs += jump;
      expect((await fixture.core.sessions.get(ALICE, id)).status).toBe("running");
      await fixture.crash();
      fixture.clock.wallMs -= jump;
      await fixture.crash();
      fixture.clock.pass(39_999);
      expect((await fixture.core.sessions.get(ALICE, id)).status).toBe("running");
      fixture.clock.pass(1);
      expect((await fixture.core.sessions.get(ALICE, id)).status).toBe("expired");
    },
  );

  it("continue after a reboot and include the time while the machine was off", async () => {
    fixture = await CoreFixture.start();
    const { session } = await fixture.core.sessions.create(ALICE, {});
    fixture.clock.pass(20_000);
    await reboot(15_000);
    const after = await fixture.core.sessions.get(ALICE, session.id);
    expect(after).toMatchObject({ status: "running", expiresAtMs: session.expiresAtMs });
    fixture.clock.pass(24_999);
    expect((await fixture.core.sessions.get(ALICE, session.id)).status).toBe("running");
    fixture.clock.pass(1);
    expect((await fixture.core.sessions.get(ALICE, session.id)).status).toBe("expired");
  });

  it("give no session more than its lifetime, however often the machine reboots", async () => {
    fixture = await CoreFixture.start();
    const { id } = (await fixture.core.sessions.create(ALICE, {})).session;
    for (let lived = 0; lived < 600_000; lived += 50_000) {
      expect((await fixture.core.sessions.get(ALICE, id)).status).toBe("running");
      await fixture.core.sessions.renew(ALICE, id);
      fixture.clock.pass(30_000);
      await reboot(20_000);
    }
    expect((await fixture.core.sessions.get(ALICE, id)).status).toBe("expired");
    await fixture.core.reaper.tick();
    expect(fixture.machine.sandboxes.size).toBe(0);
  });

  it("expire at once if they ended before the machine was up again", async () => {
    fixture = await CoreFixture.start();
    const { id } = (await fixture.core.sessions.create(ALICE, {})).session;
    await reboot(60_000);
    expect((await fixture.core.sessions.get(ALICE, id)).status).toBe("expired");
    expect(fixture.machine.sandboxes.size).toBe(0);
  });

  it("do not run backwards if the clock was set back while the machine was off", async () => {
    fixture = await CoreFixture.start();
    const { id } = (await fixture.core.sessions.create(ALICE, {})).session;
    fixture.clock.pass(20_000);
    await fixture.core.sessions.renew(ALICE, id);
    await fixture.core.membership.beat();
    await reboot(1000, -YEAR_MS);
    fixture.clock.pass(59_999);
    expect((await fixture.core.sessions.get(ALICE, id)).status).toBe("running");
    fixture.clock.pass(1);
    expect((await fixture.core.sessions.get(ALICE, id)).status).toBe("expired");
  });
});

describe("a row that has ended while its sandbox is alive", () => {
  it("stays ended, and the sandbox is removed", async () => {
    fixture = await CoreFixture.start();
    const { session } = await fixture.core.sessions.create(ALICE, {});
    await fixture.store.updateSession(session.id, session.fence, ["running"], {
      status: "destroying",
    });
    await fixture.store.updateSession(session.id, session.fence, ["destroying"], {
      status: "destroyed",
      endedAtMs: fixture.clock.wallMs,
    });
    expect(fixture.machine.sandboxes.size).toBe(1);
    await fixture.crash();
    expect(fixture.machine.sandboxes.size).toBe(0);
    expect((await fixture.core.sessions.get(ALICE, session.id)).status).toBe("destroyed");
  });
});
