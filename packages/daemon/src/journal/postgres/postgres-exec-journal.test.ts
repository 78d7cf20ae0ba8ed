/** The journal in the database passes the suite, and a daemon that lost a session adds nothing to it. */
import { journalSuite, MANY, sessionRow } from "@sandkasten/testkit";
import { afterAll, beforeAll, expect, test } from "vitest";
import { TestDatabase } from "../../../../../tests/support/postgres-under-test.ts";
import { PostgresSessionStore } from "../../store/postgres/postgres-session-store.ts";
import { PostgresExecJournal } from "./postgres-exec-journal.ts";

const READING = { bootId: "boot-1", monotonicMs: 1000, wallMs: 0 };
let database: TestDatabase;

beforeAll(async () => {
  database = await TestDatabase.make();
  await (await PostgresSessionStore.open({ url: database.url })).closed();
});
afterAll(() => database[Symbol.asyncDispose]());

async function makeFixture() {
  await database.empty();
  const stores: PostgresSessionStore[] = [];
  const open = async (): Promise<PostgresExecJournal> => {
    const store = await PostgresSessionStore.open({ url: database.url });
    stores.push(store);
    return new PostgresExecJournal({
      database: store.database,
      maxBytesPerExec: 2 ** 20,
      maxBytesPerSession: 2 ** 22,
    });
  };
  const journal = await open();
  const [store] = stores;
  if (store === undefined) throw new Error("it was just opened");
  const { fence } = await store.join(undefined, READING);
  for (const id of ["ses_1", "ses_2"]) await store.insertSession(sessionRow({ id, fence }), MANY);
  const close = async (): Promise<void> => {
    for (const one of stores) await one.closed();
  };
  return { store, journal, reopen: open, fence, close };
}

journalSuite("Postgres", makeFixture);

test("a daemon that lost the session can no longer add or drop output", async () => {
  const { store, journal, fence, close } = await makeFixture();
  const writer = await journal.write("ses_1", "exe_1", undefined, fence);
  await writer.append("stdout", Buffer.from("mine"), 1);
  await store.leave(fence);
  const next = await store.join(undefined, READING);
  await store.claim(next.fence, ["oci:here"]);
  const moved = { details: { reason: "moved" } };
  await expect(writer.append("stdout", Buffer.from("late"), 2)).rejects.toMatchObject(moved);
  await expect(writer.skip(4)).rejects.toMatchObject(moved);
  await expect(journal.write("ses_1", "exe_2", undefined, fence)).rejects.toMatchObject(moved);
  const successor = await journal.write("ses_1", "exe_1", undefined, next.fence);
  expect(successor.endOffset).toBe(4);
  await successor.append("stdout", Buffer.from(" and on"), 3);
  const page = await journal.read("ses_1", "exe_1", 0, 100);
  expect(Buffer.concat(page.chunks.map(({ bytes }) => bytes)).toString()).toBe("mine and on");
  await close();
});

test("output is deleted with its session", async () => {
  const { store, journal, fence, close } = await makeFixture();
  const writer = await journal.write("ses_1", "exe_1", undefined, fence);
  await writer.append("stdout", Buffer.from("x"), 1);
  await store.updateSession("ses_1", fence, ["running"], { status: "destroyed", endedAtMs: 1 });
  expect(await store.forgetSessionsEndedBefore(2)).toEqual(["ses_1"]);
  expect(await journal.sessions()).toEqual([]);
  await close();
});

test("a session's oldest output is deleted when a command starts and there is too much", async () => {
  const { journal, fence, close } = await makeFixture();
  for (let at = 0; at < 6; at++) {
    const writer = await journal.write("ses_1", `exe_${at}`, undefined, fence);
    await writer.append("stdout", Buffer.alloc(2 ** 20), 1);
  }
  await journal.write("ses_1", "exe_last", undefined, fence);
  expect(await journal.size("ses_1")).toBe(2 ** 22);
  expect((await journal.read("ses_1", "exe_0", 0, 1)).chunks).toEqual([]);
  expect((await journal.read("ses_1", "exe_5", 0, 1)).chunks).toHaveLength(1);
  await close();
});
