/** The connections to a Postgres database. Failures are translated. */
import { Kysely, PostgresDialect, sql } from "kysely";
import type { RawBuilder, Transaction } from "kysely";
import pg from "pg";
import type { Log } from "../../ports/log.ts";
import { migrationsOf } from "../migrations.ts";
import type { RowMapping, StoredRow } from "../row-mapping.ts";
import { databaseFailure } from "./database-failure.ts";
import { migrate } from "./migrate.ts";
import { PooledConnection } from "./pooled-connection.ts";
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
  readonly #pool: pg.Pool;
  readonly #underWay = new Set<Promise<unknown>>();
  #closed: Promise<void> | undefined;

  private constructor(kysely: Kysely<Tables>, pool: pg.Pool) {
    this.#kysely = kysely;
    this.#pool = pool;
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
    const connections = { connect: () => PooledConnection.take(pool), end: () => pool.end() };
    const dialect = new PostgresDialect({ pool: connections as unknown as pg.Pool });
    const kysely = new Kysely<Tables>({ dialect });
    const database = new Database(kysely, pool);
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
    const { rows } = await this.#do(doing, () => query.execute(this.#kysely));
    return rows as StoredRow[];
  }

  async read<Row extends object>(
    doing: string,
    mapping: RowMapping<Row>,
    query: RawBuilder<unknown>,
  ): Promise<readonly Row[]> {
    return (await this.rows(doing, query)).map((row) => mapping.read(row));
  }

  /**
   * For statements of every command: their text is fixed, so nothing is compiled. Returns the rows
   * and how many rows the statement affected.
   */
  async run(
    doing: string,
    text: string,
    values: readonly unknown[],
  ): Promise<{ readonly rows: readonly StoredRow[]; readonly count: number }> {
    const { rows, rowCount } = await this.#do(doing, () => this.#query(text, values));
    return { rows: rows as StoredRow[], count: rowCount ?? 0 };
  }

  /** A transaction that also survives a crash of the database. */
  async lasting<T>(
    doing: string,
    work: (transaction: Transaction<Tables>) => Promise<T>,
  ): Promise<T> {
    return await this.#do(doing, () =>
      this.#kysely.transaction().execute(async (transaction) => {
        await sql`SET LOCAL synchronous_commit = on`.execute(transaction);
        return await work(transaction);
      }),
    );
  }

  /** Refuses new work at once; resolves when what is under way has finished. */
  async close(): Promise<void> {
    this.#closed ??= Promise.allSettled(this.#underWay).then(() => this.#kysely.destroy());
    await this.#closed;
  }

  async #query(text: string, values: readonly unknown[]): Promise<pg.QueryResult> {
    const connection = await PooledConnection.take(this.#pool);
    try {
      return await connection.query(text, values);
    } finally {
      connection.release();
    }
  }

  async #do<T>(doing: string, work: () => Promise<T>): Promise<T> {
    let running: Promise<T> | undefined;
    try {
      if (this.#closed !== undefined) throw new Error("it is closed");
      running = work();
      this.#underWay.add(running);
      return await running;
    } catch (error) {
      throw databaseFailure(error, doing);
    } finally {
      if (running !== undefined) this.#underWay.delete(running);
    }
  }
}

function parserOf(type: number, format?: "text" | "binary"): (value: string) => unknown {
  if (type === INT8) return Number;
  return pg.types.getTypeParser(type, format) as (value: string) => unknown;
}
