/** What a store still knows after it is reopened. */
import { expect, it } from "vitest";
import type { StoreFixtureOf } from "./store-fixture.ts";
import { withCode } from "./run-command.ts";
import { FENCE, MANY, fullExecRow, fullSessionRow, workspaceRow } from "./store-rows.ts";

export function storeRestartSuite(fixture: StoreFixtureOf): void {
  it("is new until a daemon has started on it, however often it is opened before", async () => {
    const { store, reopen } = fixture();
    expect(store.isNew).toBe(true);
    const again = await reopen();
    expect(again.isNew).toBe(true);
    await again.settle();
    again.close();
    expect((await reopen()).isNew).toBe(false);
  });

  it("keeps every row", async () => {
    const { store, reopen } = fixture();
    const session = fullSessionRow();
    const exec = fullExecRow(session.id);
    const workspace = workspaceRow();
    await store.insertSession(session, MANY);
    await store.insertExec(exec, FENCE, MANY);
    await store.insertWorkspace(workspace, MANY);
    await store.updateSession(session.id, FENCE, ["creating"], { status: "running" });
    const again = await reopen();
    expect(await again.getSession(session.id)).toStrictEqual({ ...session, status: "running" });
    expect(await again.getExec(session.id, exec.id)).toStrictEqual(exec);
    expect(await again.allWorkspaces()).toStrictEqual([workspace]);
  });

  it("rejects after it is closed, and can be closed twice", async () => {
    const { store } = fixture();
    store.close();
    store.close();
    await expect(store.getSession("ses_1")).rejects.toMatchObject(withCode("INTERNAL_ERROR"));
    await expect(store.insertSession(fullSessionRow(), MANY)).rejects.toMatchObject(
      withCode("INTERNAL_ERROR"),
    );
  });
}
