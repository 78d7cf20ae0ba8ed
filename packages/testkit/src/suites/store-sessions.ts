/** How sessions are stored, found and changed. */
import { expect, it } from "vitest";
import type { SessionRow, SessionStore } from "../ports.ts";
import { withCode } from "./run-command.ts";
import type { StoreFixtureOf } from "./store-fixture.ts";
import { FENCE, MANY, fullSessionRow, execRow, sessionRow } from "./store-rows.ts";

const LIVING = ["creating", "running", "paused", "destroying"] as const;
const ENDED = ["destroyed", "expired", "crashed", "failed"] as const;

export function storeSessionSuite(fixture: StoreFixtureOf): void {
  const store = (): SessionStore => fixture().store;

  async function insert(changes: Partial<SessionRow> = {}): Promise<SessionRow> {
    const row = sessionRow(changes);
    expect(await store().insertSession(row, MANY)).toEqual({ inserted: true });
    return row;
  }

  it.each([
    ["without what may be absent", sessionRow()],
    ["with all that there is", fullSessionRow()],
  ])("returns a session %s", async (_, row) => {
    expect(await store().insertSession(row, MANY)).toEqual({ inserted: true });
    expect(await store().getSession(row.id)).toStrictEqual(row);
    expect(await store().getSession("ses_unknown")).toBeUndefined();
  });

  it.each(["creating", "running", "paused"] as const)(
    "refuses a second session of a key while one is %s",
    async (status) => {
      const first = await insert({ key: "agent:a:default", status });
      const second = sessionRow({ key: "agent:a:default", createdAtMs: 1 });
      expect(await store().insertSession(second, MANY)).toStrictEqual({
        inserted: false,
        existing: first,
      });
      expect(await store().getSession(second.id)).toBeUndefined();
      expect(await store().findByKey("alice", "agent:a:default")).toStrictEqual(first);
    },
  );

  it.each(["destroying", ...ENDED] as const)(
    "frees a key once its session is %s",
    async (status) => {
      await insert({ key: "agent:a:default", status });
      expect(await store().findByKey("alice", "agent:a:default")).toBeUndefined();
      const second = await insert({ key: "agent:a:default" });
      expect(await store().findByKey("alice", "agent:a:default")).toStrictEqual(second);
    },
  );

  it("frees a key as soon as its session changes to destroying", async () => {
    const first = await insert({ key: "agent:a:default" });
    await store().updateSession(first.id, FENCE, ["running"], { status: "destroying" });
    await insert({ key: "agent:a:default" });
  });

  it("creates one session of a key for all concurrent requests", async () => {
    const rows = Array.from({ length: 20 }, () => sessionRow({ key: "user:u:default" }));
    const answers = await Promise.all(rows.map((row) => store().insertSession(row, MANY)));
    const winner = await store().findByKey("alice", "user:u:default");
    expect(answers.filter(({ inserted }) => inserted)).toHaveLength(1);
    for (const answer of answers.filter(({ inserted }) => !inserted))
      expect(answer).toStrictEqual({ inserted: false, existing: winner });
  });

  it("keeps the keys of different owners separate", async () => {
    const mine = await insert({ key: "user:u:default", idempotencyKey: "k" });
    const theirs = await insert({ key: "user:u:default", idempotencyKey: "k", owner: "bob" });
    expect(await store().findByKey("alice", "user:u:default")).toStrictEqual(mine);
    expect(await store().findByKey("bob", "user:u:default")).toStrictEqual(theirs);
    expect(await store().findByKey("carol", "user:u:default")).toBeUndefined();
  });

  it.each([...LIVING, ...ENDED].filter((status) => status !== "failed"))(
    "returns the session of a repeated request, even if it is %s",
    async (status) => {
      const first = await insert({ idempotencyKey: "k", requestHash: "h", status });
      const again = sessionRow({ idempotencyKey: "k", requestHash: "other" });
      expect(await store().insertSession(again, MANY)).toStrictEqual({
        inserted: false,
        existing: first,
      });
    },
  );

  it("allows a failed request to be repeated", async () => {
    await insert({ idempotencyKey: "k", status: "failed" });
    const again = sessionRow({ idempotencyKey: "k" });
    expect(await store().insertSession(again, MANY)).toEqual({ inserted: true });
  });

  it("returns a repeated request's own session, not the key's new one", async () => {
    const first = await insert({ key: "user:u:default", idempotencyKey: "k", status: "destroyed" });
    await insert({ key: "user:u:default" });
    const again = sessionRow({ key: "user:u:default", idempotencyKey: "k" });
    expect(await store().insertSession(again, MANY)).toMatchObject({ existing: { id: first.id } });
  });

  it("refuses an id that is in use", async () => {
    const { id } = await insert();
    await expect(store().insertSession(sessionRow({ id }), MANY)).rejects.toMatchObject(
      withCode("INTERNAL_ERROR"),
    );
  });

  it("changes only the properties in a patch, and returns the session", async () => {
    const row = await insert({ status: "creating" });
    const changes = {
      status: "running",
      image: "docker.io/library/python:3.12",
      imageDigest: "sha256:00",
      cwd: "/workspace/ä",
      ttlMs: 5,
      lastActivityAtMs: 1_790_000_000_001,
      endedAtMs: 1_790_000_000_002,
      endReason: "why not",
      leaseEndsMs: 0,
      lifetimeEndsMs: 0.5,
    } as const;
    const changed = { ...row, ...changes };
    expect(await store().updateSession(row.id, FENCE, ["creating"], changes)).toStrictEqual(
      changed,
    );
    expect(await store().getSession(row.id)).toStrictEqual(changed);
    const { leaseEndsMs, ...rest } = changed;
    expect(
      await store().updateSession(row.id, FENCE, ["running"], { leaseEndsMs: 7 }),
    ).toStrictEqual({
      ...rest,
      leaseEndsMs: leaseEndsMs + 7,
    });
  });

  it("changes a session only in one of the given states", async () => {
    const row = await insert({ status: "paused" });
    const patch = { status: "running", cwd: "/elsewhere" } as const;
    for (const from of [["running", "creating"], []] as const)
      expect(await store().updateSession(row.id, FENCE, from, patch)).toBeUndefined();
    expect(await store().updateSession("ses_unknown", FENCE, ["paused"], patch)).toBeUndefined();
    expect(await store().getSession(row.id)).toStrictEqual(row);
    expect(await store().updateSession(row.id, FENCE, ["running", "paused"], patch)).toMatchObject(
      patch,
    );
  });

  it("lets one of the callers win that change the same state at once", async () => {
    const { id } = await insert();
    const changed = await Promise.all(
      (["destroying", "paused", "crashed"] as const).map((status) =>
        store().updateSession(id, FENCE, ["running"], { status }),
      ),
    );
    expect(changed.filter((row) => row !== undefined)).toHaveLength(1);
  });

  it("returns the session for an empty patch, if it is in that state", async () => {
    const row = await insert();
    expect(await store().updateSession(row.id, FENCE, ["running"], {})).toStrictEqual(row);
    expect(await store().updateSession(row.id, FENCE, ["paused"], {})).toBeUndefined();
  });

  it("counts sessions as active that have not ended", async () => {
    const rows = await Promise.all([...LIVING, ...ENDED].map((status) => insert({ status })));
    const living = await store().livingSessions();
    expect(living.map(({ id }) => id).sort()).toEqual(
      rows
        .slice(0, LIVING.length)
        .map(({ id }) => id)
        .sort(),
    );
  });

  it("deletes only ended sessions and their commands", async () => {
    const old = await Promise.all(ENDED.map((status) => insert({ status, endedAtMs: 999 })));
    const kept = [
      await insert({ status: "destroyed", endedAtMs: 1_000 }),
      await insert({ status: "running", createdAtMs: 1, lastActivityAtMs: 1 }),
      await insert({ status: "destroying", endedAtMs: 1 }),
    ];
    for (const { id } of [...old, ...kept]) await store().insertExec(execRow(id), FENCE, MANY);
    expect([...(await store().forgetSessionsEndedBefore(1_000))].sort()).toEqual(
      old.map(({ id }) => id).sort(),
    );
    for (const { id } of old) {
      expect(await store().getSession(id)).toBeUndefined();
      expect((await store().listExecs(id, { limit: 10 })).rows).toEqual([]);
    }
    for (const row of kept) {
      expect(await store().getSession(row.id)).toStrictEqual(row);
      expect((await store().listExecs(row.id, { limit: 10 })).rows).toHaveLength(1);
    }
    expect(await store().forgetSessionsEndedBefore(1_000)).toEqual([]);
  });

  it("deletes any number of sessions at once", async () => {
    const rows = Array.from({ length: 250 }, () => sessionRow({ status: "expired", endedAtMs: 1 }));
    for (const row of rows) await store().insertSession(row, MANY);
    expect(await store().forgetSessionsEndedBefore(2)).toHaveLength(rows.length);
    expect((await store().listSessions({ owner: "alice", limit: 1 })).rows).toEqual([]);
  });
}
