import { afterEach, describe, expect, it } from "vitest";
import { FakeBackend } from "@sandkasten/testkit";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { ALICE, CoreFixture, SETTINGS } from "./testing/core-fixture.ts";

let fixture: CoreFixture;
afterEach(async () => {
  await fixture[Symbol.asyncDispose]();
});

describe("a start after a crash", () => {
  it("adopts living sandboxes with their leases, and removes what belongs to no session", async () => {
    fixture = await CoreFixture.start();
    const { session } = await fixture.core.sessions.create(ALICE, { key: "user:a:b" });
    const orphan = { id: "sbx_orphan", image: "host", profile: "restricted", env: {} } as const;
    await new FakeBackend(fixture.machine).create({ ...orphan, limits: SETTINGS.defaultLimits });
    fixture.clock.pass(30_000);
    await fixture.crash();
    expect([...fixture.machine.sandboxes.keys()]).toEqual([session.sandboxId]);
    const adopted = await fixture.core.sessions.get(ALICE, session.id);
    expect(adopted).toMatchObject({ status: "running", expiresAtMs: session.expiresAtMs });
    expect((await fixture.core.sessions.create(ALICE, { key: "user:a:b" })).session.id).toBe(
      session.id,
    );
  });

  it("calls sessions crashed whose sandbox is gone, and failed that were being made", async () => {
    fixture = await CoreFixture.start();
    const { session } = await fixture.core.sessions.create(ALICE, {});
    const { expiresAtMs: _, maxExpiresAtMs: __, ...row } = session;
    await fixture.store.insertSession({
      ...row,
      id: "ses_half",
      sandboxId: "sbx_half",
      status: "creating",
    });
    fixture.machine.sandboxes.clear();
    await fixture.crash();
    expect((await fixture.core.sessions.get(ALICE, session.id)).status).toBe("crashed");
    expect((await fixture.core.sessions.get(ALICE, "ses_half")).status).toBe("failed");
    expect(fixture.core.counts().sessions.running).toBe(0);
  });

  it("finishes what was being destroyed", async () => {
    fixture = await CoreFixture.start();
    const { session } = await fixture.core.sessions.create(ALICE, {});
    await fixture.store.updateSession(session.id, ["running"], { status: "destroying" });
    await fixture.crash();
    expect((await fixture.core.sessions.get(ALICE, session.id)).status).toBe("destroyed");
    expect(fixture.machine.sandboxes.size).toBe(0);
  });

  it("expires at once what has been over for long", async () => {
    fixture = await CoreFixture.start();
    const { session } = await fixture.core.sessions.create(ALICE, {});
    fixture.clock.pass(60_001);
    await fixture.crash();
    expect((await fixture.core.sessions.get(ALICE, session.id)).status).toBe("expired");
  });

  it("refuses a lost database rather than destroy living sandboxes", async () => {
    fixture = await CoreFixture.start();
    await fixture.core.sessions.create(ALICE, {});
    await fixture.stop("keep");
    for (const name of ["sandkasten.db", "sandkasten.db-wal"])
      await rm(join(fixture.directory, name), { force: true });
    // However often it is tried: a refused start does not make the database an old one.
    for (let times = 0; times < 2; times++)
      await expect(fixture.crash()).rejects.toMatchObject({ code: "CONFLICT" });
    expect(fixture.machine.sandboxes.size).toBe(1);
  });
});

describe("stop()", () => {
  it("destroys all sessions when that is wanted", async () => {
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
