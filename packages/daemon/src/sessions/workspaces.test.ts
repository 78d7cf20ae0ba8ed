import { SandboxError } from "@sandkasten/protocol";
import { FakeBackend } from "@sandkasten/testkit";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { SandboxAccess } from "./services/session-service.ts";
import type { Backend } from "../ports/backend.ts";
import { ALICE, BOB, CoreFixture, overriding } from "./testing/core-fixture.ts";

let fixture: CoreFixture;
beforeEach(async () => {
  fixture = await CoreFixture.start();
});
afterEach(async () => {
  await fixture[Symbol.asyncDispose]();
});

const code = (expected: string) => expect.objectContaining({ code: expected });

/** As a daemon does that considers them orphans. */
async function removeSandboxes(): Promise<void> {
  const backend = new FakeBackend(fixture.machine);
  for (const id of fixture.machine.sandboxes.keys()) await backend.destroy(id);
}

async function read(visit: SandboxAccess, path: string) {
  const { body } = await visit.channel.readFile(path);
  const parts: Uint8Array[] = [];
  for await (const bytes of body) parts.push(bytes);
  return Buffer.concat(parts).toString("utf8");
}

describe("a workspace", () => {
  it("keeps its files from one session to the next", async () => {
    const { sessions } = fixture.core;
    const first = (await sessions.create(ALICE, { workspaceId: "notes" })).session;
    await fixture.run(first.id, "echo remember > /workspace/memo");
    await sessions.destroy(ALICE, first.id);
    const second = (await sessions.create(ALICE, { workspaceId: "notes" })).session;
    expect(await fixture.run(second.id, "cat /workspace/memo")).toMatchObject({
      output: "remember\n",
    });
  });

  it("is a different one for another owner", async () => {
    const { sessions, workspaces } = fixture.core;
    const mine = (await sessions.create(ALICE, { workspaceId: "notes" })).session;
    await fixture.run(mine.id, "echo mine > /workspace/memo");
    await expect(workspaces.get(BOB, "notes")).rejects.toThrow(code("FILE_NOT_FOUND"));
    using visit = await workspaces.enter(BOB, "notes", { make: true });
    await expect(visit.channel.stat("/workspace/memo")).rejects.toThrow(code("FILE_NOT_FOUND"));
    expect(await workspaces.list(BOB)).toHaveLength(1);
  });

  it("can be used without a session, through a sandbox that is removed when idle", async () => {
    const { workspaces, reaper } = fixture.core;
    {
      using visit = await workspaces.enter(ALICE, "notes", { make: true });
      await visit.channel.writeFile("/workspace/memo", Buffer.from("by file call"));
      await reaper.tick();
    }
    expect(fixture.machine.sandboxes.size).toBe(1);
    fixture.clock.pass(60_001);
    await reaper.tick();
    expect(fixture.machine.sandboxes.size).toBe(0);
    using again = await workspaces.enter(ALICE, "notes");
    expect(await read(again, "/workspace/memo")).toBe("by file call");
  });

  it("is used through another sandbox if the one for file calls is gone", async () => {
    const { workspaces } = fixture.core;
    (await workspaces.enter(ALICE, "notes", { make: true }))[Symbol.dispose]();
    await removeSandboxes();
    using again = await workspaces.enter(ALICE, "notes");
    await again.channel.writeFile("/workspace/memo", Buffer.from("x"));
  });

  it("is used through a sandbox of the new token after another daemon took over", async () => {
    const { workspaces, membership, reaper } = fixture.core;
    (await workspaces.enter(ALICE, "notes", { make: true }))[Symbol.dispose]();
    const [old] = fixture.machine.sandboxes.keys();
    // What the other daemon does: it declares this one dead and removes its sandboxes.
    await fixture.store.leave(membership.fence);
    await fixture.store.deleteSideSandbox(String(old));
    await membership.beat();
    expect([...fixture.machine.sandboxes.keys()]).toEqual([]);
    using again = await workspaces.enter(ALICE, "notes");
    await reaper.tick();
    await again.channel.writeFile("/workspace/memo", Buffer.from("x"));
  });

  it("is not removed by a failed creation after another daemon used it", async () => {
    const failure = Promise.withResolvers<never>();
    const begun = Promise.withResolvers<void>();
    const failing = (backend: Backend): Backend =>
      overriding(backend, {
        create: async () => {
          begun.resolve();
          return await failure.promise;
        },
      });
    await fixture.restart("keep", { wrap: failing });
    const { sessions, workspaces } = fixture.core;
    const created = sessions.create(ALICE, { workspaceId: "notes" });
    await begun.promise;
    // Another daemon, which does not know of this creation, uses the workspace meanwhile.
    const { diskId } = await workspaces.get(ALICE, "notes");
    await fixture.store.touchWorkspace(diskId, fixture.clock.nowMs());
    failure.reject(new Error("no"));
    await expect(created).rejects.toThrow("no");
    expect(await workspaces.list(ALICE)).toHaveLength(1);
  });

  it("is not opened while another daemon destroys it, nor destroyed while another opens it", async () => {
    const destroying = Promise.withResolvers<void>();
    const isDestroying = Promise.withResolvers<void>();
    const slow = (backend: Backend): Backend =>
      overriding(backend, {
        destroyWorkspace: async (id) => {
          isDestroying.resolve();
          await destroying.promise;
          await backend.destroyWorkspace(id);
        },
      });
    const conflict = { code: "CONFLICT" };
    await fixture.restart("keep", { wrap: slow });
    const { sessions, workspaces, membership } = fixture.core;
    (await workspaces.enter(ALICE, "notes", { make: true }))[Symbol.dispose]();
    const { diskId } = await workspaces.get(ALICE, "notes");
    const end = workspaces.destroy(ALICE, "notes");
    await isDestroying.promise;
    // As another daemon sees it.
    const seen = await fixture.store.getWorkspace(ALICE.owner, "notes");
    expect(seen).toMatchObject({ endingFence: membership.fence });
    expect(await fixture.store.touchWorkspace(diskId, 1)).toBe(false);
    destroying.resolve();
    await end;
    expect(fixture.machine.workspaces.size).toBe(0);
    const { session } = await sessions.create(ALICE, { workspaceId: "notes" });
    await expect(workspaces.destroy(ALICE, "notes")).rejects.toMatchObject(conflict);
    // The refusal has removed the mark.
    const { diskId: later } = await workspaces.get(ALICE, "notes");
    expect(await fixture.store.touchWorkspace(later, 1)).toBe(true);
    expect(session.workspaceId).toBe("notes");
  });

  it("is destroyed before it is used again if another daemon began to destroy it", async () => {
    const { sessions, workspaces } = fixture.core;
    const { id } = (await sessions.create(ALICE, { workspaceId: "notes" })).session;
    await fixture.run(id, "echo old > /workspace/memo");
    await sessions.destroy(ALICE, id);
    const { diskId } = await workspaces.get(ALICE, "notes");
    const { fence } = fixture.core.membership;
    expect(await fixture.store.endWorkspace(diskId, fence)).toBe("begun");
    await fixture.crash();
    const next = (await fixture.core.sessions.create(ALICE, { workspaceId: "notes" })).session;
    expect((await fixture.run(next.id, "cat /workspace/memo")).output).not.toBe("old\n");
    // That daemon was only stalled, and continues: its disk is another one.
    await new FakeBackend(fixture.machine).destroyWorkspace(diskId);
    await fixture.store.deleteWorkspace(diskId);
    await fixture.core.sessions.destroy(ALICE, next.id);
    expect(await fixture.core.workspaces.list(ALICE)).toHaveLength(1);
    expect(fixture.machine.workspaces.size).toBe(1);
  });

  it("is not used again while an engine may still remove it late", async () => {
    let isLate = true;
    const removals: (() => Promise<void>)[] = [];
    const silent = (backend: Backend): Backend =>
      overriding(backend, {
        destroyWorkspace: async (id) => {
          const remove = async (): Promise<void> => await backend.destroyWorkspace(id);
          if (!isLate) return await remove();
          removals.push(remove);
          throw new SandboxError("SANDBOX_UNREACHABLE", "the engine does not answer");
        },
      });
    await fixture.restart("keep", { wrap: silent });
    const { sessions, workspaces } = fixture.core;
    (await workspaces.enter(ALICE, "notes", { make: true }))[Symbol.dispose]();
    const { diskId } = await workspaces.get(ALICE, "notes");
    await expect(workspaces.destroy(ALICE, "notes")).rejects.toThrow(code("SANDBOX_UNREACHABLE"));
    expect(await fixture.store.touchWorkspace(diskId, 1)).toBe(false);
    isLate = false;
    const { id } = (await sessions.create(ALICE, { workspaceId: "notes" })).session;
    await fixture.run(id, "echo kept > /workspace/memo");
    for (const remove of removals) await remove();
    expect(await fixture.run(id, "cat /workspace/memo")).toMatchObject({ output: "kept\n" });
    expect((await workspaces.get(ALICE, "notes")).diskId).not.toBe(diskId);
  });

  it("is removed later, without another request, if the engine did not confirm the removal", async () => {
    let isSilent = true;
    const silent = (backend: Backend): Backend =>
      overriding(backend, {
        destroyWorkspace: async (id) => {
          if (isSilent) throw new SandboxError("SANDBOX_UNREACHABLE", "the engine does not answer");
          await backend.destroyWorkspace(id);
        },
      });
    await fixture.restart("keep", { wrap: silent });
    const { workspaces, reaper } = fixture.core;
    (await workspaces.enter(ALICE, "notes", { make: true }))[Symbol.dispose]();
    await expect(workspaces.destroy(ALICE, "notes")).rejects.toThrow(code("SANDBOX_UNREACHABLE"));
    await reaper.tick();
    expect(await workspaces.list(ALICE)).toHaveLength(1);
    isSilent = false;
    await reaper.tick();
    expect(await workspaces.list(ALICE)).toEqual([]);
    expect(fixture.machine.workspaces.size).toBe(0);
  });

  it("is not restored by a file call that another daemon's destruction overtook", async () => {
    const create = Promise.withResolvers<void>();
    const begun = Promise.withResolvers<void>();
    const slow = (backend: Backend): Backend =>
      overriding(backend, {
        create: async (spec, signal) => {
          begun.resolve();
          await create.promise;
          return await backend.create(spec, signal);
        },
      });
    {
      using _ = await fixture.core.workspaces.enter(ALICE, "notes", { make: true });
    }
    await fixture.restart("keep", { wrap: slow });
    const { workspaces, membership } = fixture.core;
    const { diskId } = await workspaces.get(ALICE, "notes");
    const opening = workspaces.enter(ALICE, "notes").catch((error: unknown) => error);
    await begun.promise;
    await fixture.store.endWorkspace(diskId, membership.fence);
    await new FakeBackend(fixture.machine).destroyWorkspace(diskId);
    await fixture.store.deleteWorkspace(diskId);
    create.resolve();
    expect(await opening).toMatchObject({ code: "FILE_NOT_FOUND" });
    expect(fixture.machine.workspaces.size).toBe(0);
    expect(fixture.machine.sandboxes.size).toBe(0);
  });

  it("is used through the session that mounts it", async () => {
    const { sessions, workspaces } = fixture.core;
    const { id } = (await sessions.create(ALICE, { workspaceId: "notes" })).session;
    using visit = await workspaces.enter(ALICE, "notes");
    await visit.channel.writeFile("/workspace/memo", Buffer.from("x"));
    expect(fixture.machine.sandboxes.size).toBe(1);
    expect(await workspaces.get(ALICE, "notes")).toMatchObject({ sessionIds: [id] });
  });

  it("cannot be destroyed while a session has it, and is gone with its files afterwards", async () => {
    const { sessions, workspaces } = fixture.core;
    const { id } = (await sessions.create(ALICE, { workspaceId: "notes" })).session;
    await expect(workspaces.destroy(ALICE, "notes")).rejects.toThrow(code("CONFLICT"));
    await sessions.destroy(ALICE, id);
    (await workspaces.enter(ALICE, "notes"))[Symbol.dispose]();
    await workspaces.destroy(ALICE, "notes");
    expect(fixture.machine.sandboxes.size).toBe(0);
    await expect(workspaces.enter(ALICE, "notes")).rejects.toThrow(code("FILE_NOT_FOUND"));
    await expect(workspaces.destroy(ALICE, "notes")).rejects.toThrow(code("FILE_NOT_FOUND"));
  });

  it("knows which sessions mount it at another path, even after a restart, and stays while they do", async () => {
    const workspaces = [{ id: "data", path: "/mnt", readOnly: true }];
    const made = (await fixture.core.sessions.create(ALICE, { workspaces })).session;
    expect(made).toMatchObject({ workspaces });
    for (const restarts of [0, 1]) {
      if (restarts > 0) await fixture.restart("keep");
      const { core } = fixture;
      expect(await core.sessions.get(ALICE, made.id)).toMatchObject({ workspaces });
      expect(await core.workspaces.get(ALICE, "data")).toMatchObject({
        sessionIds: [made.id],
      });
      await expect(core.workspaces.destroy(ALICE, "data")).rejects.toThrow(
        expect.objectContaining({ code: "CONFLICT", details: { session_id: made.id } }),
      );
    }
    await fixture.core.sessions.destroy(ALICE, made.id);
    expect(await fixture.core.workspaces.get(ALICE, "data")).toMatchObject({ sessionIds: [] });
    await fixture.core.workspaces.destroy(ALICE, "data");
  });

  it("is created again by a write that waited for its end, and nothing of it is lost", async () => {
    const { workspaces } = fixture.core;
    const first = workspaces.enter(ALICE, "notes", { make: true });
    await first;
    const destroying = workspaces.destroy(ALICE, "notes");
    const writing = (async () => {
      using visit = await workspaces.enter(ALICE, "notes", { make: true });
      await visit.channel.writeFile("/workspace/b", Buffer.from("kept"));
    })();
    (await first)[Symbol.dispose]();
    const [, written] = await Promise.allSettled([destroying, writing]);
    const listed = await workspaces.list(ALICE);
    if (written.status === "rejected") expect(written.reason).toMatchObject({ code: "CONFLICT" });
    else {
      expect(listed).toHaveLength(1);
      using again = await workspaces.enter(ALICE, "notes");
      expect(await read(again, "/workspace/b")).toBe("kept");
    }
    expect(fixture.machine.workspaces.size).toBe(listed.length);
  });

  it("can be used after the lifetime of its session has ended", async () => {
    const { sessions, workspaces } = fixture.core;
    await sessions.create(ALICE, { workspaceId: "notes" });
    fixture.clock.pass(60_001);
    using visit = await workspaces.enter(ALICE, "notes");
    await visit.channel.writeFile("/workspace/memo", Buffer.from("x"));
  });

  it("is not left behind by a session that could not be created", async () => {
    const failing = (backend: Backend): Backend =>
      overriding(backend, { create: () => Promise.reject(new Error("no")) });
    await fixture.restart("keep", { wrap: failing });
    const { sessions, workspaces } = fixture.core;
    await expect(sessions.create(ALICE, { workspaceId: "notes" })).rejects.toThrow("no");
    await expect(workspaces.enter(ALICE, "notes", { make: true })).rejects.toThrow("no");
    expect(await workspaces.list(ALICE)).toEqual([]);
  });

  it("is refused beyond the number that an owner may keep", async () => {
    const { workspaces } = fixture.core;
    const caller = { ...ALICE, maxWorkspaces: 2 };
    for (const id of ["one", "two"])
      (await workspaces.enter(caller, id, { make: true }))[Symbol.dispose]();
    await expect(workspaces.enter(caller, "three", { make: true })).rejects.toThrow(
      code("QUOTA_EXCEEDED"),
    );
    expect(await workspaces.list(caller)).toHaveLength(2);
  });

  it("uses no more sandboxes for file calls than an owner can have, and replaces idle ones first", async () => {
    const { workspaces } = fixture.core;
    const enter = (n: number) => workspaces.enter(ALICE, `space-${n}`, { make: true });
    const held = [];
    for (let n = 0; n < 16; n++) held.push(await enter(n));
    await expect(enter(16)).rejects.toThrow(code("QUOTA_EXCEEDED"));
    held[3]?.[Symbol.dispose]();
    (await enter(17))[Symbol.dispose]();
    expect(fixture.machine.sandboxes.size).toBe(16);
    for (const access of held) access[Symbol.dispose]();
  });
});
