import { FakeBackend, FakeMachine } from "@sandkasten/testkit";
import { afterEach, describe, expect, it } from "vitest";
import { ALICE, CoreFixture, SETTINGS } from "./testing/core-fixture.ts";
import { CutBackend } from "./testing/cut-backend.ts";

let fixture: CoreFixture;
afterEach(async () => {
  await fixture[Symbol.asyncDispose]();
});

describe("a session on one of several backends", () => {
  it("is on the requested or the default one, and all operations happen there", async () => {
    const elsewhere = new FakeMachine(["host"]);
    fixture = await CoreFixture.start({ others: [new FakeBackend(elsewhere, "other")] });
    const { sessions } = fixture.core;
    const { session: usual } = await sessions.create(ALICE, {});
    const { session: asked } = await sessions.create(ALICE, { backend: "other" });
    expect([usual.backend, asked.backend]).toEqual(["fake", "other"]);
    expect([...elsewhere.sandboxes.keys()]).toEqual([asked.id]);
    expect((await fixture.run(asked.id, "echo there")).output).toBe("there\n");
    expect((await sessions.pause(ALICE, asked.id)).status).toBe("paused");
    await fixture.crash();
    expect((await fixture.core.sessions.get(ALICE, asked.id)).status).toBe("paused");
    await fixture.core.sessions.destroy(ALICE, asked.id);
    expect(elsewhere.sandboxes.size).toBe(0);
    expect(fixture.machine.sandboxes.size).toBe(1);
  });

  it("is refused for an unknown backend, and the error lists the known ones", async () => {
    fixture = await CoreFixture.start();
    await expect(fixture.core.sessions.create(ALICE, { backend: "moon" })).rejects.toMatchObject({
      code: "INVALID_REQUEST",
      message: expect.stringContaining("choose one of: fake") as unknown,
    });
  });

  it("is not found by its key, nor with its workspace, for another backend", async () => {
    fixture = await CoreFixture.start({ others: [new FakeBackend(new FakeMachine(), "other")] });
    const { sessions, workspaces } = fixture.core;
    await sessions.create(ALICE, { key: "user:u:k", workspaceId: "notes" });
    await expect(
      sessions.create(ALICE, { key: "user:u:k", backend: "other" }),
    ).rejects.toMatchObject({ code: "CONFLICT", details: { backend: "fake" } });
    await expect(
      sessions.create(ALICE, { workspaceId: "notes", backend: "other" }),
    ).rejects.toMatchObject({ code: "CONFLICT", details: { backend: "fake" } });
    expect((await workspaces.get(ALICE, "notes")).backend).toBe("fake");
  });

  it("waits, unchanged, while its backend is not configured", async () => {
    const elsewhere = new FakeMachine(["host"]);
    const others = [new FakeBackend(elsewhere, "other")];
    fixture = await CoreFixture.start({ others });
    const { session } = await fixture.core.sessions.create(ALICE, { backend: "other" });
    await fixture.restart("keep", {});
    expect((await fixture.core.sessions.get(ALICE, session.id)).status).toBe("unreachable");
    await expect(fixture.run(session.id, "true")).rejects.toMatchObject({
      code: "ENGINE_UNREACHABLE",
      message: expect.stringContaining("other is no longer configured") as unknown,
    });
    await fixture.core.reaper.tick();
    await fixture.restart("keep", { others });
    expect((await fixture.run(session.id, "echo back")).output).toBe("back\n");
  });
});

describe("while a backend cannot be reached", () => {
  async function startCut(): Promise<{ readonly engine: CutBackend; readonly id: string }> {
    let engine: CutBackend | undefined;
    fixture = await CoreFixture.start({
      wrap: (backend) => {
        const cut = new CutBackend(backend);
        cut.isCut = engine?.isCut ?? false;
        engine = cut;
        return cut.backend;
      },
    });
    const { session } = await fixture.core.sessions.create(ALICE, {});
    return {
      get engine() {
        if (engine === undefined) throw new Error("the core was not started");
        return engine;
      },
      id: session.id,
    };
  }

  it("its sessions are unreachable, requests can be retried, and nothing is ended", async () => {
    const { engine, id } = await startCut();
    await fixture.run(id, "cd /tmp");
    await fixture.core.sessions.pause(ALICE, id);
    await fixture.core.sessions.resume(ALICE, id);
    engine.isCut = true;
    expect((await fixture.core.sessions.get(ALICE, id)).status).toBe("unreachable");
    expect((await fixture.core.sessions.list(ALICE, {})).rows[0]?.status).toBe("unreachable");
    for (const call of [
      fixture.core.sessions.stats(ALICE, id),
      fixture.core.sessions.pause(ALICE, id),
      fixture.core.sessions.create(ALICE, {}),
    ])
      await expect(call).rejects.toMatchObject({ code: "ENGINE_UNREACHABLE", retryable: true });
    await fixture.core.reaper.tick();
    engine.isCut = false;
    expect((await fixture.core.sessions.get(ALICE, id)).status).toBe("running");
    expect((await fixture.run(id, "pwd")).output).toBe("/tmp\n");
  });

  it("a session that must end does so when its backend is reachable again", async () => {
    const { engine, id } = await startCut();
    engine.isCut = true;
    await expect(fixture.core.sessions.destroy(ALICE, id)).rejects.toMatchObject({
      code: "ENGINE_UNREACHABLE",
    });
    expect(fixture.machine.sandboxes.size).toBe(1);
    engine.isCut = false;
    await fixture.core.reaper.tick();
    expect(fixture.machine.sandboxes.size).toBe(0);
    expect((await fixture.core.sessions.get(ALICE, id)).status).toBe("destroyed");
  });

  it("a daemon that starts does not touch its sessions, and takes them over when it can", async () => {
    const cut = await startCut();
    const command = { kind: "shell", text: "sleep 60" } as const;
    const exec = await fixture.core.execs.start(ALICE, cut.id, { command });
    const orphan = { id: "sbx_orphan", image: "host", profile: "restricted", env: {} } as const;
    await new FakeBackend(fixture.machine).create({ ...orphan, limits: SETTINGS.defaultLimits });
    cut.engine.isCut = true;
    await fixture.crash();
    expect((await fixture.core.sessions.get(ALICE, cut.id)).status).toBe("unreachable");
    expect((await fixture.core.execs.get(ALICE, cut.id, exec.id)).row.status).toBe("running");
    await fixture.core.reaper.tick();
    expect(fixture.machine.sandboxes.size).toBe(2);

    cut.engine.isCut = false;
    await fixture.core.reaper.tick();
    expect([...fixture.machine.sandboxes.keys()]).not.toContain("sbx_orphan");
    expect((await fixture.core.sessions.get(ALICE, cut.id)).status).toBe("running");
    await (await fixture.core.execs.get(ALICE, cut.id, exec.id)).signal(9);
    expect((await (await fixture.core.execs.get(ALICE, cut.id, exec.id)).wait()).endReason).toBe(
      "killed",
    );
  });

  it("nothing is created on it before its existing sandboxes were taken over", async () => {
    const cut = await startCut();
    cut.engine.isCut = true;
    await fixture.crash();
    await expect(fixture.core.sessions.create(ALICE, {})).rejects.toMatchObject({
      code: "ENGINE_UNREACHABLE",
    });
    cut.engine.isCut = false;
    const made = await Promise.all([
      fixture.core.sessions.create(ALICE, {}),
      fixture.core.sessions.create(ALICE, {}),
    ]);
    expect(made.map(({ session }) => session.status)).toEqual(["running", "running"]);
    expect((await fixture.core.sessions.get(ALICE, cut.id)).status).toBe("running");
    expect(fixture.machine.sandboxes.size).toBe(3);
  });
});
