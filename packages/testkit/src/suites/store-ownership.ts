/** Which daemon serves a session, and that no other changes it. */
import { expect, it } from "vitest";
import type { SessionStore, SideSandboxRow } from "../ports.ts";
import type { StoreFixtureOf } from "./store-fixture.ts";
import { execRow, FENCE, MANY, sessionRow } from "./store-rows.ts";

/** The clocks of a machine that has been up for a while. */
export const FIRST_READING = { bootId: "boot-1", monotonicMs: 1000, wallMs: 1_790_000_000_000 };
const PLACE = "oci:here";
const moved = { details: { reason: "moved" } };

function pooled(id: string): SideSandboxRow {
  return { id, fence: FENCE, place: PLACE, purpose: "pool" };
}

export function storeOwnershipSuite(fixture: StoreFixtureOf): void {
  const store = (): SessionStore => fixture().store;

  /** The daemon that joined first leaves, and another one claims its sessions. */
  async function succeed(): Promise<number> {
    await store().leave(FENCE);
    const { fence } = await store().join("http://10.0.0.2:8080", FIRST_READING);
    return fence;
  }

  it("gives every run of a daemon a greater token, and knows the addresses of live daemons", async () => {
    expect(await store().livingDaemon(FENCE)).toEqual({ fence: FENCE });
    const fence = await succeed();
    expect(fence).toBeGreaterThan(FENCE);
    expect(await store().livingDaemon(FENCE)).toBeUndefined();
    expect(await store().livingDaemon(fence)).toEqual({ fence, address: "http://10.0.0.2:8080" });
    expect(await store().livingDaemon(fence + 1)).toBeUndefined();
  });

  it("gives a daemon's sessions to the next one that claims them, with its token", async () => {
    const living = sessionRow({ id: "living" });
    await store().insertSession(living, MANY);
    await store().insertSession(sessionRow({ id: "ended", status: "destroyed" }), MANY);
    const fence = await succeed();
    const { sessions } = await store().claim(fence, [PLACE]);
    expect(sessions).toStrictEqual([{ ...living, fence }]);
    expect(await store().getSession("living")).toStrictEqual({ ...living, fence });
    expect(await store().claim(fence, [PLACE])).toEqual({ sessions: [] });
  });

  it("claims an ended session whose command has not ended, because a daemon must end it", async () => {
    await store().insertSession(sessionRow({ id: "s" }), MANY);
    const exec = execRow("s", { id: "exe_1", status: "running" });
    await store().insertExec(exec, FENCE, MANY);
    await store().updateSession("s", FENCE, ["running"], { status: "crashed", endedAtMs: 1 });
    expect(await store().unfinishedExecs(FENCE)).toHaveLength(1);
    const fence = await succeed();
    expect(await store().unfinishedExecs(fence)).toEqual([]);
    expect(await store().claim(fence, [PLACE])).toMatchObject({ sessions: [{ id: "s", fence }] });
    expect(await store().unfinishedExecs(fence)).toStrictEqual([exec]);
  });

  it("lets a daemon that lost a session no longer change it", async () => {
    const row = sessionRow({ id: "s" });
    await store().insertSession(row, MANY);
    const exec = execRow("s", { id: "exe_1", status: "running" });
    await store().insertExec(exec, FENCE, MANY);
    const fence = await succeed();
    await store().claim(fence, [PLACE]);

    expect(await store().updateSession("s", FENCE, ["running"], { cwd: "/old" })).toBeUndefined();
    expect(await store().updateSession("s", FENCE, ["running"], {})).toBeUndefined();
    await expect(store().updateExec("s", "exe_1", FENCE, { status: "done" })).rejects.toMatchObject(
      moved,
    );
    await expect(
      store().insertExec(execRow("s", { id: "exe_2" }), FENCE, MANY),
    ).rejects.toMatchObject(moved);
    expect(await store().getSession("s")).toStrictEqual({ ...row, fence });
    expect(await store().getExec("s", "exe_1")).toStrictEqual(exec);
    expect(await store().getExec("s", "exe_2")).toBeUndefined();

    await store().updateExec("s", "exe_1", fence, { status: "done" });
    expect(await store().getExec("s", "exe_1")).toMatchObject({ status: "done" });
    expect(await store().updateSession("s", fence, ["running"], { cwd: "/new" })).toMatchObject({
      cwd: "/new",
    });
  });

  it("lets a daemon that is declared dead add and claim nothing", async () => {
    await store().leave(FENCE);
    expect(await store().beat(FENCE, 0, FIRST_READING)).toBeUndefined();
    await expect(store().insertSession(sessionRow({ id: "s" }), MANY)).rejects.toMatchObject(moved);
    await expect(store().claim(FENCE, [PLACE])).rejects.toMatchObject(moved);
    const side = { id: "sbx_1", fence: FENCE, place: PLACE, purpose: "pool" } as const;
    await expect(store().insertSideSandbox(side)).rejects.toMatchObject(moved);
    expect(await store().getSession("s")).toBeUndefined();
    expect(await store().sandboxesAt(PLACE)).toEqual(new Set());
  });

  it("rejects a change of a command of an unknown session", async () => {
    await expect(store().updateExec("none", "exe", FENCE, { cwd: "/" })).rejects.toMatchObject(
      moved,
    );
  });

  it("knows every sandbox of a place, until it is gone", async () => {
    for (const status of ["creating", "running", "destroying", "destroyed"] as const)
      await store().insertSession(sessionRow({ id: `ses_${status}`, status }), MANY);
    await store().insertSession(sessionRow({ id: "ses_old", sandboxId: "sbx_old" }), MANY);
    await store().insertSession(sessionRow({ id: "ses_far", place: "docker:x" }), MANY);
    await store().insertSideSandbox(pooled("ses_pool"));
    await store().insertSideSandbox({ ...pooled("sbx_files"), purpose: "workspace" });
    expect(await store().sandboxesAt(PLACE)).toEqual(
      new Set([
        "ses_creating",
        "ses_running",
        "ses_destroying",
        "sbx_old",
        "ses_pool",
        "sbx_files",
      ]),
    );
    await store().deleteSideSandbox("sbx_files");
    expect(await store().sandboxesAt(PLACE)).not.toContain("sbx_files");
    expect(await store().sandboxesAt("docker:x")).toEqual(new Set(["ses_far"]));
  });

  it("turns a sandbox of the pool into one session, once", async () => {
    await store().insertSideSandbox(pooled("ses_1"));
    const rows = ["alice", "bob"].map((owner) =>
      sessionRow({ id: "ses_1", owner, acquireSource: "pool" }),
    );
    const written = await Promise.all(rows.map((row) => store().insertSession(row, MANY)));
    const at = written.findIndex(({ inserted }) => inserted);
    expect(written[1 - at]).toEqual({ inserted: false, sandboxLost: true });
    expect(await store().getSession("ses_1")).toStrictEqual(rows[at]);
    expect([...(await store().sandboxesAt(PLACE))]).toEqual(["ses_1"]);
    // The session has replaced it, so it ends with the session.
    await store().updateSession("ses_1", FENCE, ["running"], { status: "destroyed" });
    expect([...(await store().sandboxesAt(PLACE))]).toEqual([]);
  });

  it("keeps a sandbox in the pool if the session is refused", async () => {
    await store().insertSideSandbox(pooled("ses_1"));
    const key = "user:u:default";
    await store().insertSession(sessionRow({ key }), MANY);
    const row = sessionRow({ id: "ses_1", acquireSource: "pool" });
    expect(await store().insertSession({ ...row, key }, MANY)).toMatchObject({ existing: { key } });
    expect(await store().insertSession(row, 1)).toMatchObject({ overQuota: true });
    expect([...(await store().sandboxesAt(PLACE))]).toContain("ses_1");
    // Only from then on is it a session.
    expect(await store().insertSession(row, MANY)).toEqual({ inserted: true });
  });

  it("keeps a sandbox in the pool if its session cannot be written", async () => {
    await store().insertSession(sessionRow({ id: "ses_1", status: "destroyed" }), MANY);
    await store().insertSideSandbox(pooled("ses_1"));
    const row = sessionRow({ id: "ses_1", acquireSource: "pool" });
    await expect(store().insertSession(row, MANY)).rejects.toMatchObject({
      code: "INTERNAL_ERROR",
    });
    expect(await store().sandboxesAt(PLACE)).toEqual(new Set(["ses_1"]));
  });

  it("does not turn a sandbox that another daemon's token was recorded for into a session", async () => {
    await store().insertSideSandbox(pooled("ses_1"));
    const fence = await succeed();
    const row = sessionRow({ id: "ses_1", fence, acquireSource: "pool" });
    const lost = { inserted: false, sandboxLost: true };
    expect(await store().insertSession(row, MANY)).toEqual(lost);
    await store().claim(fence, [PLACE]);
    expect(await store().sandboxesAt(PLACE)).toEqual(new Set());
    expect(await store().insertSession(row, MANY)).toEqual(lost);
    expect(await store().getSession("ses_1")).toBeUndefined();
  });
}
