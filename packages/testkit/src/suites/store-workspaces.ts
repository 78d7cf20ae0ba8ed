/** How workspaces are stored and deleted. */
import { expect, it } from "vitest";
import type { SessionStore, WorkspaceRow } from "../ports.ts";
import { withCode } from "./run-command.ts";
import type { StoreFixtureOf } from "./store-fixture.ts";
import { MANY, workspaceRow } from "./store-rows.ts";

const READING = { bootId: "boot-1", monotonicMs: 1000, wallMs: 0 };

export function storeWorkspaceSuite(fixture: StoreFixtureOf): void {
  const store = (): SessionStore => fixture().store;

  it("returns a workspace to its owner only", async () => {
    const row = workspaceRow();
    expect(await store().insertWorkspace(row, MANY)).toEqual({ inserted: true });
    expect(await store().getWorkspace("alice", "notes")).toStrictEqual(row);
    expect(await store().getWorkspace("bob", "notes")).toBeUndefined();
    expect(await store().getWorkspace("alice", "other")).toBeUndefined();
  });

  it("returns the workspace that already has the name", async () => {
    const first = workspaceRow();
    await store().insertWorkspace(first, MANY);
    expect(await store().insertWorkspace(workspaceRow(), MANY)).toStrictEqual({
      inserted: false,
      existing: first,
    });
    expect(await store().insertWorkspace(workspaceRow({ owner: "bob" }), MANY)).toEqual({
      inserted: true,
    });
  });

  it("never assigns one disk to two workspaces", async () => {
    const { diskId } = workspaceRow();
    await store().insertWorkspace(workspaceRow({ diskId }), MANY);
    await expect(
      store().insertWorkspace(workspaceRow({ id: "other", diskId }), MANY),
    ).rejects.toMatchObject(withCode("INTERNAL_ERROR"));
  });

  it("records when a workspace was last used", async () => {
    const row = workspaceRow();
    const theirs = workspaceRow({ owner: "bob" });
    await store().insertWorkspace(row, MANY);
    await store().insertWorkspace(theirs, MANY);
    expect(await store().touchWorkspace(row.diskId, 1_790_000_000_007)).toBe(true);
    expect(await store().touchWorkspace("wsp_unknown", 1)).toBe(false);
    const touched = { ...row, lastUsedAtMs: 1_790_000_000_007 };
    expect(await store().getWorkspace("alice", "notes")).toStrictEqual(touched);
    expect(await store().getWorkspace("bob", "notes")).toStrictEqual(theirs);
  });

  it("lists the workspaces of an owner, or all, and deletes one", async () => {
    const first = workspaceRow({ id: "a" });
    const rows = [first, workspaceRow({ id: "b" }), workspaceRow({ id: "a", owner: "bob" })];
    for (const row of rows) await store().insertWorkspace(row, MANY);
    expect(await store().listWorkspaces("alice")).toStrictEqual(rows.slice(0, 2));
    expect(await store().allWorkspaces()).toStrictEqual(rows);
    await store().deleteWorkspace(first.diskId);
    await store().deleteWorkspace(first.diskId);
    expect(await store().allWorkspaces()).toStrictEqual(rows.slice(1));
  });

  it("deletes a new workspace unless it was used, even in the same millisecond", async () => {
    const { createdAtMs } = workspaceRow();
    const [unused, used] = ["unused", "used"].map((id) =>
      workspaceRow({ id, createdAtMs, lastUsedAtMs: createdAtMs }),
    ) as [WorkspaceRow, WorkspaceRow];
    for (const row of [unused, used]) await store().insertWorkspace(row, MANY);
    await store().touchWorkspace(used.diskId, createdAtMs);
    const { fence } = await store().join(undefined, READING);
    const ifUnused = { ifUnused: true };
    expect(await store().endWorkspace(used.diskId, fence, ifUnused)).toBeUndefined();
    expect(await store().endWorkspace(unused.diskId, fence, ifUnused)).toBe("begun");
    expect(await store().touchWorkspace(used.diskId, createdAtMs)).toBe(true);
    expect(await store().touchWorkspace(unused.diskId, createdAtMs)).toBe(false);
  });

  it("marks a workspace that is being destroyed until the mark is removed", async () => {
    const row = workspaceRow();
    await store().insertWorkspace(row, MANY);
    const { fence } = await store().join(undefined, READING);
    expect(await store().endWorkspace("wsp_unknown", fence)).toBeUndefined();
    expect(await store().endWorkspace(row.diskId, fence)).toBe("begun");
    expect(await store().insertWorkspace(workspaceRow(), MANY)).toStrictEqual({
      inserted: false,
      existing: { ...row, endingFence: fence },
    });
    expect(await store().touchWorkspace(row.diskId, 1)).toBe(false);
    expect(await store().endWorkspace(row.diskId, fence)).toBe("inherited");
    await store().keepWorkspace(row.diskId, fence + 1);
    expect(await store().touchWorkspace(row.diskId, 1)).toBe(false);
    await store().keepWorkspace(row.diskId, fence);
    expect(await store().touchWorkspace(row.diskId, 1)).toBe(true);
  });

  it("lets the next daemon complete the destruction of a dead one, and not the dead one", async () => {
    const row = workspaceRow();
    await store().insertWorkspace(row, MANY);
    const { fence: dead } = await store().join(undefined, READING);
    expect(await store().endWorkspace(row.diskId, dead)).toBe("begun");
    await store().leave(dead);
    const { fence } = await store().join(undefined, READING);
    expect(await store().endWorkspace(row.diskId, dead)).toBeUndefined();
    expect(await store().endWorkspace(row.diskId, fence)).toBe("inherited");
    await store().keepWorkspace(row.diskId, dead);
    expect(await store().getWorkspace(row.owner, row.id)).toMatchObject({ endingFence: fence });
  });

  it("does not affect a new workspace if the removal of its predecessor ends late", async () => {
    const [old, current] = [workspaceRow(), workspaceRow()];
    await store().insertWorkspace(old, MANY);
    await store().deleteWorkspace(old.diskId);
    await store().insertWorkspace(current, MANY);
    await store().deleteWorkspace(old.diskId);
    expect(await store().getWorkspace(current.owner, current.id)).toStrictEqual(current);
  });
}
