/**
 * The connections to a Postgres database. Statements are prepared once per connection; failures are
 * translated.
 */
import { createHash } from "node:crypto";
import { Kysely, PostgresDialect, sql } from "kysely";
import type { RawBuilder, Transaction } from "kysely";
import pg from "pg";
import type { Log } from "../../ports/log.ts";
import { migrationsOf } from "../migrations.ts";
import type { StoredRow } from "../row-mapping.ts";
import { databaseFailure } from "./database-failure.ts";
import { migrate } from "./migrate.ts";
import type { Tables } from "./tables.ts";

const CONNECTIONS = 10;
const CONNECT_TIMEOUT_MS = 10_000;
/** A database that does not respond for this long counts as unreachable. */
const QUERY_TIMEOUT_MS = 20_000;
/** The type of counts, which fit into a JavaScript number. */
const INT8 = 20;

export interface DatabaseOptions {
  readonly url: string;
  readonly log?: Log | undefined;
}

export class Database {
  readonly #kysely: Kysely<Tables>;
  #closed: Promise<void> | undefined;

  private constructor(kysely: Kysely<Tables>) {
    this.#kysely = kysely;
  }

  static async open({ url, log }: DatabaseOptions): Promise<Database> {
    const pool = new pg.Pool({
      connectionString: url,
      max: CONNECTIONS,
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      query_timeout: QUERY_TIMEOUT_MS,
      keepAlive: true,
      application_name: "sandkasten",
      // Committed changes survive the daemon's end at any instant; only a crash of the database may
      // lose the last ones. Changes that must survive that too request it explicitly.
      options: "-c synchronous_commit=off",
      types: { getTypeParser: parserOf },
    });
    pool.on("error", (error) => log?.warn({ err: error }, "a connection to the database broke"));
    const kysely = new Kysely<Tables>({ dialect: new PostgresDialect({ pool: preparing(pool) }) });
    const database = new Database(kysely);
    try {
      await database.lasting("opening it", (transaction) =>
        migrate(transaction, migrationsOf("postgres")),
      );
      return database;
    } catch (error) {
      await database.close();
      throw error;
    }
  }

  async rows(doing: string, query: RawBuilder<unknown>): Promise<readonly StoredRow[]> {
    try {
      this.#requireOpen();
      return (await query.execute(this.#kysely)).rows as StoredRow[];
    } catch (error) {
      throw databaseFailure(error, doing);
    }
  }

  /** A transaction that also survives a crash of the database. */
  async lasting<T>(
    doing: string,
    work: (transaction: Transaction<Tables>) => Promise<T>,
  ): Promise<T> {
    try {
      this.#requireOpen();
      return await this.#kysely.transaction().execute(async (transaction) => {
        await sql`SET LOCAL synchronous_commit = on`.execute(transaction);
        return await work(transaction);
      });
    } catch (error) {
      throw databaseFailure(error, doing);
    }
  }

  #requireOpen(): void {
    if (this.#closed !== undefined) throw new Error("it is closed");
  }

  async close(): Promise<void> {
    this.#closed ??= this.#kysely.destroy();
    await this.#closed;
  }
}

function parserOf(type: number, format?: "text" | "binary"): (value: string) => unknown {
  if (type === INT8) return Number;
  return pg.types.getTypeParser(type, format) as (value: string) => unknown;
}

/** Names statements by their text, so Postgres parses and plans each once per connection. */
function preparing(pool: pg.Pool) {
  return {
    connect: async () => {
      const client = await pool.connect();
      return {
        query: (text: string, values: readonly unknown[]) =>
          values.length === 0
            ? client.query(text)
            : client.query({ name: nameOf(text), text, values: [...values] }),
        release: () => client.release(),
      };
    },
    end: () => pool.end(),
  } as unknown as pg.Pool;
}

const names = new Map<string, string>();

function nameOf(text: string): string {
  let name = names.get(text);
  if (name === undefined) {
    name = createHash("sha1").update(text).digest("base64url");
    names.set(text, name);
  }
  return name;
}
