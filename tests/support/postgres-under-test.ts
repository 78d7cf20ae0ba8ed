/** The Postgres cluster that the tests of a run share. */
import { randomBytes } from "node:crypto";
import pg from "pg";
import { inject } from "vitest";

declare module "vitest" {
  interface ProvidedContext {
    /** A database in a cluster that exists only for the tests. */
    postgresUrl: string;
  }
}

/** A new, empty database, removed after the test. */
export class TestDatabase implements AsyncDisposable {
  readonly url: string;
  readonly #name: string;

  private constructor(name: string) {
    this.#name = name;
    this.url = inject("postgresUrl").replace("/postgres?", `/${name}?`);
  }

  static async make(): Promise<TestDatabase> {
    const name = `test_${randomBytes(6).toString("hex")}`;
    await run(inject("postgresUrl"), `CREATE DATABASE ${name}`);
    return new TestDatabase(name);
  }

  /** Reads or changes it without a store. */
  async query(sql: string): Promise<readonly Record<string, unknown>[]> {
    return await run(this.url, sql);
  }

  /** Empties every table, as if the daemon had just created the database. */
  async empty(): Promise<void> {
    await this.query(`
      TRUNCATE daemons, side_sandboxes, sessions, execs, workspaces, events, event_owners, keys
        RESTART IDENTITY CASCADE;
      UPDATE store_facts SET is_settled = 0;
      UPDATE event_feed SET cursor_key = NULL, newest = 0, removed = 0;
    `);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await run(inject("postgresUrl"), `DROP DATABASE ${this.#name} WITH (FORCE)`);
  }
}

async function run(url: string, sql: string): Promise<readonly Record<string, unknown>[]> {
  const client = new pg.Client(url);
  await client.connect();
  try {
    return (await client.query(sql)).rows as Record<string, unknown>[];
  } finally {
    await client.end();
  }
}
