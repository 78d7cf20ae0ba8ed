/** Ends of commands that are stored together. */
import { setTimeout as sleep } from "node:timers/promises";
import { execRow, sessionRow } from "@sandkasten/testkit";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { TestDatabase } from "../../../../../tests/support/postgres-under-test.ts";
import type { ExecPatch } from "../../ports/session-store.ts";
import { Database } from "./database.ts";
import { PostgresSessionStore } from "./postgres-session-store.ts";

const COMMANDS = ["exe_1", "exe_2", "exe_3"] as const;
const READING = { bootId: "boot-1", monotonicMs: 1000, wallMs: 0 };

let database: TestDatabase;
let store: PostgresSessionStore;
let fence: number;
beforeAll(async () => {
  database = await TestDatabase.make();
});
beforeEach(async () => {
  store = await PostgresSessionStore.open({ url: database.url });
  await database.empty();
  ({ fence } = await store.join(undefined, READING));
  for (const id of COMMANDS) {
    const owner = `owner of ${id}`;
    const session = sessionRow({ id: `session of ${id}`, owner, fence });
    await store.insertSession(session, 10);
    await store.insertExec(execRow(session.id, { id, owner }), fence, 10);
  }
});
afterEach(async () => {
  vi.useRealTimers();
  vi.restoreAllMocks();
  await store.closed();
});
afterAll(() => database[Symbol.asyncDispose]());

const update = (id: string, patch: ExecPatch, token = fence): Promise<void> =>
  store.updateExec(`session of ${id}`, id, token, patch);
/** Until a test says so, no time passes for ends that wait for others. */
const stopTimers = (): void => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
};
const stored = async (id: string) => await store.getExec(`session of ${id}`, id);

describe("ends of commands", () => {
  test("are stored in one statement, each with its own command", async () => {
    const run = vi.spyOn(Database.prototype, "run");
    await Promise.all(
      COMMANDS.map((id, exitCode) => update(id, { status: "done", exitCode, cwd: `/${id}` })),
    );
    expect(run).toHaveBeenCalledTimes(1);
    for (const [exitCode, id] of COMMANDS.entries())
      expect(await stored(id)).toMatchObject({ status: "done", exitCode, cwd: `/${id}` });
  });

  test("an end that the database refuses does not affect the others", async () => {
    const [bad, ...good] = COMMANDS;
    const ends = await Promise.allSettled([
      update(bad, { status: "done", cwd: "/a\0b" }),
      ...good.map((id) => update(id, { status: "done", exitCode: 7 })),
    ]);
    expect(ends.map(({ status }) => status)).toEqual(["rejected", "fulfilled", "fulfilled"]);
    expect(await stored(bad)).toMatchObject({ status: "running" });
    for (const id of good) expect(await stored(id)).toMatchObject({ status: "done", exitCode: 7 });
  });

  test("an end for a session of another daemon is refused alone", async () => {
    const [lost, kept] = COMMANDS;
    const ends = await Promise.allSettled([
      update(lost, { status: "done" }, fence + 1),
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

  test("are stored before their session changes its status", async () => {
    const [id] = COMMANDS;
    const written = update(id, { status: "done", exitCode: 3 });
    await store.updateSession(`session of ${id}`, fence, ["running"], { status: "destroying" });
    expect(await stored(id)).toMatchObject({ status: "done", exitCode: 3 });
    await written;
  });

  test("that are being stored are waited for, and are not overtaken", async () => {
    const [id] = COMMANDS;
    const written: string[] = [];
    const slow = Promise.withResolvers<void>();
    const run = Reflect.get(Database.prototype, "run");
    vi.spyOn(Database.prototype, "run").mockImplementation(async function (
      this: Database,
      ...args: Parameters<typeof run>
    ) {
      const isFirst = args[0] === "changing commands" && !written.includes("begun");
      if (isFirst) {
        written.push("begun");
        await slow.promise;
      }
      const result = await run.apply(this, args);
      written.push(isFirst ? "end" : "later");
      return result;
    });
    const changes = [update(id, { status: "done", backgroundBytes: 1 })];
    await vi.waitFor(() => expect(written).toEqual(["begun"]));
    changes.push(update(id, { backgroundBytes: 5 }));
    const session = `session of ${id}`;
    const ending = store.updateSession(session, fence, ["running"], { status: "destroying" });
    await Promise.race([ending, sleep(200)]);
    slow.resolve();
    await Promise.all([...changes, ending]);
    expect(written.slice(0, 3)).toEqual(["begun", "end", "later"]);
    expect(await stored(id)).toMatchObject({ status: "done", backgroundBytes: 5 });
  });

  test("are stored at once if the quota is reached", async () => {
    stopTimers();
    const [id] = COMMANDS;
    const row = execRow(`session of ${id}`, { id: "exe_next", owner: `owner of ${id}` });
    const written = update(id, { status: "done" });
    expect(await store.insertExec(row, fence, 1)).toEqual({ inserted: false, overQuota: true });
    expect(await stored(id)).toMatchObject({ status: "done" });
    expect(await store.insertExec(row, fence, 1)).toEqual({ inserted: true });
    await written;
  });

  test("are stored before the store is closed", async () => {
    const [id] = COMMANDS;
    const written = update(id, { status: "done", exitCode: 3 });
    await store.closed();
    await written;
    store = await PostgresSessionStore.open({ url: database.url });
    expect(await stored(id)).toMatchObject({ status: "done", exitCode: 3 });
  });
});
