/** Ends of commands that share a transaction. */
import { execRow, FENCE, sessionRow } from "@sandkasten/testkit";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { ExecPatch, ExecRow } from "../../ports/session-store.ts";
import { SessionDatabase } from "./session-database.ts";
import type { SqliteSessionStore } from "./sqlite-session-store.ts";
import { StoreDirectory } from "./testing/store-directory.ts";

const COMMANDS = ["exe_1", "exe_2", "exe_3"] as const;

let directory: StoreDirectory;
let store: SqliteSessionStore;
beforeEach(async () => {
  directory = await StoreDirectory.make();
  store = await directory.openJoined();
  for (const id of COMMANDS) {
    const owner = `owner of ${id}`;
    await store.insertSession(sessionRow({ id: `session of ${id}`, owner }), 10);
    await store.insertExec(next(id, { id }), FENCE, 10);
  }
});
afterEach(async () => {
  vi.restoreAllMocks();
  await directory[Symbol.asyncDispose]();
});

const next = (of: string, row: Partial<ExecRow> = {}): ExecRow =>
  execRow(`session of ${of}`, { owner: `owner of ${of}`, ...row });
const update = (id: string, patch: ExecPatch, fence = FENCE): Promise<void> =>
  store.updateExec(`session of ${id}`, id, fence, patch);
const stored = async (id: string) => await store.getExec(`session of ${id}`, id);

describe("ends of commands", () => {
  test("are stored in one transaction, each with its own command", async () => {
    const transaction = vi.spyOn(SessionDatabase.prototype, "transaction");
    await Promise.all(
      COMMANDS.map((id, exitCode) => update(id, { status: "done", exitCode, cwd: `/${id}` })),
    );
    expect(transaction).toHaveBeenCalledTimes(1);
    for (const [exitCode, id] of COMMANDS.entries())
      expect(await stored(id)).toMatchObject({ status: "done", exitCode, cwd: `/${id}` });
  });

  test("are stored in the transaction of the next command", async () => {
    const transaction = vi.spyOn(SessionDatabase.prototype, "transaction");
    const [id, other] = COMMANDS;
    const written = update(id, { status: "done", exitCode: 3 });
    expect(await store.insertExec(next(other), FENCE, 10)).toEqual({ inserted: true });
    await written;
    expect(transaction).toHaveBeenCalledTimes(1);
    expect(await stored(id)).toMatchObject({ status: "done", exitCode: 3 });
  });

  test("an end that the database refuses affects neither others nor the next command", async () => {
    const [bad, ...good] = COMMANDS;
    const ends = Promise.allSettled([
      update(bad, { status: "done", exitCode: "not a number" as unknown as number }),
      ...good.map((id) => update(id, { status: "done", exitCode: 7 })),
    ]);
    expect(await store.insertExec(next(bad), FENCE, 10)).toEqual({ inserted: true });
    expect((await ends).map(({ status }) => status)).toEqual([
      "rejected",
      "fulfilled",
      "fulfilled",
    ]);
    expect(await stored(bad)).toMatchObject({ status: "running" });
    for (const id of good) expect(await stored(id)).toMatchObject({ status: "done", exitCode: 7 });
    // It still counts.
    const refused = { inserted: false, overQuota: true };
    expect(await store.insertExec(next(bad), FENCE, 2)).toEqual(refused);
  });

  test("are stored even if the next command is refused", async () => {
    const [id, other] = COMMANDS;
    const written = update(id, { status: "done", exitCode: 3 });
    await expect(store.insertExec(next(other), FENCE + 1, 10)).rejects.toMatchObject({
      details: { reason: "moved" },
    });
    await written;
    expect(await stored(id)).toMatchObject({ status: "done", exitCode: 3 });
  });

  test("an end for a session with another token is refused alone", async () => {
    const [lost, kept] = COMMANDS;
    const ends = await Promise.allSettled([
      update(lost, { status: "done" }, FENCE + 1),
      update(kept, { status: "done" }),
    ]);
    expect(ends[0]).toMatchObject({ reason: { details: { reason: "moved" } } });
    expect(ends[1]).toMatchObject({ status: "fulfilled" });
    expect(await stored(lost)).toMatchObject({ status: "running" });
    expect(await stored(kept)).toMatchObject({ status: "done" });
  });

  test("a later change of the same command is neither lost nor overtaken", async () => {
    const [id] = COMMANDS;
    await Promise.all([
      update(id, { status: "done", exitCode: 1, backgroundBytes: 1 }),
      update(id, { backgroundBytes: 5 }),
    ]);
    expect(await stored(id)).toMatchObject({ status: "done", exitCode: 1, backgroundBytes: 5 });
  });

  test("are visible to every read at once, and do not count as running", async () => {
    const [id] = COMMANDS;
    const written = update(id, { status: "done" });
    expect(await store.insertExec(next(id), FENCE, 1)).toEqual({ inserted: true });
    expect(await store.insertExec(next(id), FENCE, 1)).toMatchObject({ overQuota: true });
    const again = update(id, { status: "done", exitCode: 4 });
    expect(await store.listExecs(`session of ${id}`, { limit: 9 })).toMatchObject({
      rows: expect.arrayContaining([
        expect.objectContaining({ id, status: "done", exitCode: 4 }),
      ]) as unknown,
    });
    await Promise.all([written, again]);
    // An end that is reported twice is counted once.
    expect(await store.insertExec(next(id), FENCE, 1)).toMatchObject({ overQuota: true });
  });

  test("are stored before the store is closed", async () => {
    const [id] = COMMANDS;
    const written = update(id, { status: "done", exitCode: 3 });
    store.close();
    await written;
    store = await directory.open();
    expect(await stored(id)).toMatchObject({ status: "done", exitCode: 3 });
  });
});

describe("the quota of running commands", () => {
  test("counts the commands of an earlier daemon, until their session is deleted", async () => {
    const [id] = COMMANDS;
    store.close();
    store = await directory.open();
    expect(await store.insertExec(next(id), FENCE, 1)).toMatchObject({ overQuota: true });
    await store.updateSession(`session of ${id}`, FENCE, ["running"], {
      status: "destroyed",
      endedAtMs: 1,
    });
    expect(await store.forgetSessionsEndedBefore(2)).toEqual([`session of ${id}`]);
    await store.insertSession(sessionRow({ id: "another", owner: `owner of ${id}` }), 10);
    expect(
      await store.insertExec(execRow("another", { owner: `owner of ${id}` }), FENCE, 1),
    ).toEqual({ inserted: true });
  });
});
