/** How commands are stored and changed. */
import { beforeEach, expect, it } from "vitest";
import type { SessionStore } from "../ports.ts";
import { withCode } from "./run-command.ts";
import type { StoreFixtureOf } from "./store-fixture.ts";
import { FENCE, MANY, fullExecRow, execRow, sessionRow } from "./store-rows.ts";

export function storeExecSuite(fixture: StoreFixtureOf): void {
  const store = (): SessionStore => fixture().store;

  beforeEach(async () => {
    await store().insertSession(sessionRow({ id: "s1" }), MANY);
    await store().insertSession(sessionRow({ id: "s2" }), MANY);
  });

  it.each([
    ["without what may be absent", execRow("s1")],
    ["with all that there is", fullExecRow("s1")],
  ])("returns a command %s, to its session only", async (_, row) => {
    expect(await store().insertExec(row, FENCE, MANY)).toEqual({ inserted: true });
    expect(await store().getExec("s1", row.id)).toStrictEqual(row);
    expect(await store().getExec("s2", row.id)).toBeUndefined();
    expect(await store().getExec("s1", "exe_unknown")).toBeUndefined();
  });

  it("changes only the properties in a patch", async () => {
    const row = execRow("s1", { status: "queued" });
    const other = execRow("s1");
    await store().insertExec(row, FENCE, MANY);
    await store().insertExec(other, FENCE, MANY);
    const { id: _, sessionId: _s, owner: _o, mode: _m, command: _c, ...all } = fullExecRow("s1");
    const {
      idempotencyKey: _i,
      requestHash: _h,
      shell: _sh,
      timeoutMs: _t,
      timeoutClamped: _l,
      ...patch
    } = all;
    await store().updateExec("s1", row.id, FENCE, patch);
    expect(await store().getExec("s1", row.id)).toStrictEqual({ ...row, ...patch });
    await store().updateExec("s1", row.id, FENCE, { shellRestarted: false, exitCode: 0 });
    expect(await store().getExec("s1", row.id)).toStrictEqual({
      ...row,
      ...patch,
      shellRestarted: false,
      exitCode: 0,
    });
    expect(await store().getExec("s1", other.id)).toStrictEqual(other);
  });

  it("accepts an empty patch, and one for an unknown command", async () => {
    const row = execRow("s1");
    await store().insertExec(row, FENCE, MANY);
    await store().updateExec("s1", row.id, FENCE, {});
    await store().updateExec("s1", "exe_unknown", FENCE, { status: "done" });
    expect((await store().listExecs("s1", { limit: 10 })).rows).toStrictEqual([row]);
  });

  it("returns the command of a repeated request, one per session", async () => {
    const first = execRow("s1", { idempotencyKey: "k", requestHash: "h" });
    await store().insertExec(first, FENCE, MANY);
    expect(
      await store().insertExec(
        execRow("s1", { idempotencyKey: "k", requestHash: "other" }),
        FENCE,
        MANY,
      ),
    ).toStrictEqual({ inserted: false, existing: first });
    expect(await store().insertExec(execRow("s2", { idempotencyKey: "k" }), FENCE, MANY)).toEqual({
      inserted: true,
    });
    expect(await store().insertExec(execRow("s1"), FENCE, MANY)).toEqual({ inserted: true });
    expect(await store().insertExec(execRow("s1"), FENCE, MANY)).toEqual({ inserted: true });
  });

  it("allows a request to be repeated if its command was not started", async () => {
    const first = execRow("s1", { idempotencyKey: "k", status: "queued" });
    await store().insertExec(first, FENCE, MANY);
    await store().updateExec("s1", first.id, FENCE, { status: "done", endReason: "not_started" });
    expect(await store().findExec("s1", "k")).toBeUndefined();
    const second = execRow("s1", { idempotencyKey: "k" });
    expect(await store().insertExec(second, FENCE, MANY)).toEqual({ inserted: true });
    expect(await store().findExec("s1", "k")).toStrictEqual(second);
    expect((await store().getExec("s1", first.id))?.endReason).toBe("not_started");
  });

  it("removes a request if an empty one replaces it", async () => {
    const row = execRow("s1", { request: "{}" });
    await store().insertExec(row, FENCE, MANY);
    await store().updateExec("s1", row.id, FENCE, { request: "" });
    const { request: _, ...rest } = row;
    expect(await store().getExec("s1", row.id)).toStrictEqual(rest);
  });

  it("counts commands that are younger, or had not ended when one started", async () => {
    const row = execRow("s1", { id: "m", startedAtMs: 100 });
    await store().insertExec(row, FENCE, MANY);
    await store().insertExec(
      execRow("s1", { id: "a", status: "done", endedAtMs: 99 }),
      FENCE,
      MANY,
    );
    await store().insertExec(
      execRow("s1", { id: "b", status: "done", endedAtMs: 100 }),
      FENCE,
      MANY,
    );
    await store().insertExec(execRow("s1", { id: "c" }), FENCE, MANY);
    await store().insertExec(
      execRow("s1", { id: "z", status: "done", endedAtMs: 50 }),
      FENCE,
      MANY,
    );
    await store().insertExec(execRow("s2", { id: "zz" }), FENCE, MANY);
    expect(await store().countExecsAfter(row)).toBe(3);
  });

  it("refuses a command of an unknown session, and an id that is in use", async () => {
    const row = execRow("s1");
    await store().insertExec(row, FENCE, MANY);
    await expect(
      store().insertExec({ ...execRow("s1"), id: row.id }, FENCE, MANY),
    ).rejects.toMatchObject(withCode("INTERNAL_ERROR"));
    await expect(store().insertExec(execRow("ses_unknown"), FENCE, MANY)).rejects.toMatchObject({
      details: { reason: "moved" },
    });
  });

  it("lists all unfinished commands: running ones before waiting ones, oldest first", async () => {
    await store().insertExec(execRow("s1", { id: "b", startedAtMs: 2 }), FENCE, MANY);
    await store().insertExec(
      execRow("s2", { id: "a", startedAtMs: 1, status: "queued" }),
      FENCE,
      MANY,
    );
    await store().insertExec(execRow("s1", { id: "c", startedAtMs: 3 }), FENCE, MANY);
    await store().insertExec(fullExecRow("s1", { startedAtMs: 0 }), FENCE, MANY);
    const ids = async (): Promise<string[]> =>
      (await store().unfinishedExecs(FENCE)).map(({ id }) => id);
    expect(await ids()).toEqual(["b", "c", "a"]);
    await store().updateExec("s1", "b", FENCE, { status: "done" });
    expect(await ids()).toEqual(["c", "a"]);
  });
}
