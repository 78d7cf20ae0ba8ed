/** Connections that break. */
import { sql } from "kysely";
import pg from "pg";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { TestDatabase } from "../../../../../tests/support/postgres-under-test.ts";
import { Database } from "./database.ts";

const unreachable = { code: "DATABASE_UNREACHABLE" };

let testDatabase: TestDatabase;
let database: Database;
beforeAll(async () => {
  testDatabase = await TestDatabase.make();
});
beforeEach(async () => {
  database = await Database.open({ url: testDatabase.url });
});
afterEach(() => database.close());
afterAll(() => testDatabase[Symbol.asyncDispose]());

const OURS = "application_name = 'sandkasten' AND datname = current_database()";
const SLEEPS = "wait_event = 'PgSleep'";

/** As a restart of Postgres does. */
async function endConnections(condition = OURS): Promise<void> {
  const client = new pg.Client(testDatabase.url);
  await client.connect();
  try {
    await client.query(
      `SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE ${OURS} AND ${condition}`,
    );
  } finally {
    await client.end();
  }
}

const works = async (): Promise<void> => {
  const { rows } = await database.run("testing", "SELECT $1::int AS n", [1]);
  expect(rows).toEqual([{ n: 1 }]);
  expect(await database.rows("testing", sql`SELECT ${2}::int AS n`)).toEqual([{ n: 2 }]);
};

describe("a connection that ends", () => {
  test("between two statements of a transaction fails only the transaction", async () => {
    const transaction = database.lasting("testing", async (inside) => {
      await endConnections();
      await sql`SELECT 1`.execute(inside);
    });
    await expect(transaction).rejects.toMatchObject(unreachable);
    await works();
  });

  test.for(["run", "rows"] as const)("during a statement is not used again (%s)", async (way) => {
    const sleeping =
      way === "run"
        ? database.run("testing", "SELECT pg_sleep($1)", [60])
        : database.rows("testing", sql`SELECT pg_sleep(${60})`);
    // Immediately, before the connection is known to be closed.
    const next = sleeping.catch(() => works());
    await expect.poll(isSleeping).toBe(true);
    await endConnections(SLEEPS);
    await next;
    await expect(sleeping).rejects.toMatchObject(unreachable);
  });
});

test("a refused statement costs no connection", async () => {
  const ofConnection = async () => await database.run("testing", "SELECT pg_backend_pid()", []);
  const before = await ofConnection();
  await expect(database.run("testing", "SELECT 1 / $1::int", [0])).rejects.toMatchObject({
    code: "INTERNAL_ERROR",
  });
  expect(await ofConnection()).toEqual(before);
});

test("a database that does not listen is unreachable", async () => {
  const open = Database.open({ url: "postgres://nobody@127.0.0.1:1/none" });
  await expect(open).rejects.toMatchObject(unreachable);
});

async function isSleeping(): Promise<boolean> {
  const { count } = await database.run(
    "testing",
    `SELECT FROM pg_stat_activity WHERE ${OURS} AND ${SLEEPS}`,
    [],
  );
  return count === 1;
}
