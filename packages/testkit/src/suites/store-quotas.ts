/** Concurrent requests never exceed a quota. */
import { expect, it } from "vitest";
import type { SessionStore } from "../ports.ts";
import type { StoreFixtureOf } from "./store-fixture.ts";
import { execRow, FENCE, MANY, sessionRow, workspaceRow } from "./store-rows.ts";

const full = { inserted: false, overQuota: true };

export function storeQuotaSuite(fixture: StoreFixtureOf): void {
  const store = (): SessionStore => fixture().store;
  const admitted = (answers: readonly { readonly inserted: boolean }[]): number =>
    answers.filter(({ inserted }) => inserted).length;

  it("admits as many concurrent sessions of an owner as allowed", async () => {
    await store().insertSession(sessionRow({ status: "destroying" }), MANY);
    await store().insertSession(sessionRow({ status: "destroyed" }), MANY);
    await store().insertSession(sessionRow({ owner: "bob" }), MANY);
    const rows = Array.from({ length: 20 }, () => sessionRow());
    const answers = await Promise.all(rows.map((row) => store().insertSession(row, 7)));
    expect(admitted(answers)).toBe(7);
    expect(answers.filter(({ inserted }) => !inserted)).toEqual(
      Array.from({ length: 13 }, () => full),
    );
    expect(await store().insertSession(sessionRow({ owner: "bob" }), 2)).toEqual({
      inserted: true,
    });
  });

  it("returns an existing session even if the quota is reached", async () => {
    const row = sessionRow({ key: "user:u:default", idempotencyKey: "k" });
    await store().insertSession(row, MANY);
    for (const again of [{ key: "user:u:default" }, { idempotencyKey: "k" }])
      expect(await store().insertSession(sessionRow(again), 1)).toStrictEqual({
        inserted: false,
        existing: row,
      });
  });

  it.each([5, 100])("admits %i concurrent commands of an owner", async (max) => {
    await store().insertSession(sessionRow({ id: "s1" }), MANY);
    await store().insertSession(sessionRow({ id: "s2" }), MANY);
    await store().insertExec(execRow("s1", { status: "done" }), FENCE, MANY);
    await store().insertExec(execRow("s1", { status: "running", owner: "bob" }), FENCE, MANY);
    const rows = Array.from({ length: max + 15 }, (_, at) =>
      execRow(at % 2 === 0 ? "s1" : "s2", { status: at % 3 === 0 ? "queued" : "running" }),
    );
    const answers = await Promise.all(rows.map((row) => store().insertExec(row, FENCE, max)));
    expect(admitted(answers)).toBe(max);
    const { sessionId = "", id = "" } = rows.find((_, at) => answers[at]?.inserted) ?? {};
    await store().updateExec(sessionId, id, FENCE, { status: "done" });
    expect(await store().insertExec(execRow("s1"), FENCE, max)).toEqual({ inserted: true });
    expect(await store().insertExec(execRow("s1"), FENCE, max)).toEqual(full);
  });

  it("returns a repeated command even if the quota is reached", async () => {
    await store().insertSession(sessionRow({ id: "s" }), MANY);
    const row = execRow("s", { status: "running", idempotencyKey: "k" });
    await store().insertExec(row, FENCE, MANY);
    expect(await store().insertExec(execRow("s", { idempotencyKey: "k" }), FENCE, 1)).toStrictEqual(
      {
        inserted: false,
        existing: row,
      },
    );
  });

  it("admits as many concurrent workspaces of an owner as allowed", async () => {
    const rows = Array.from({ length: 12 }, (_, at) =>
      workspaceRow({ id: `w${at}`, diskId: `wsp_${at}` }),
    );
    const answers = await Promise.all(rows.map((row) => store().insertWorkspace(row, 4)));
    expect(admitted(answers)).toBe(4);
    expect(await store().listWorkspaces("alice")).toHaveLength(4);
  });
}
