/** A database table in terms of the port's rows. */
import type { SQLInputValue } from "node:sqlite";
import { SandboxError } from "@sandkasten/protocol";
import type { Log } from "../../ports/log.ts";
import type { Page } from "../../ports/session-store.ts";
import { decodeCursor, encodeCursor } from "../page-cursor.ts";
import type { Assignments, RowMapping, StoredRow } from "../row-mapping.ts";
import type { SessionDatabase } from "./session-database.ts";

/** SQL with the values for its placeholders. */
export interface Condition {
  readonly sql: string;
  readonly values: readonly SQLInputValue[];
}

/** Columns, or expressions over them, that a list is sorted by, and their types. */
export type SortedBy = Readonly<Record<string, "number" | "string">>;

export interface PageRequest {
  readonly limit: number;
  readonly cursor?: string | undefined;
}

/** Its methods throw SQLite's errors; call them within `read` or `write` of the database. */
export class Table<Row extends { readonly id: string }> {
  readonly #database: SessionDatabase;
  readonly #mapping: RowMapping<Row>;
  readonly #log: Log | undefined;
  /** By condition, then by the set of columns. */
  readonly #updates = new Map<string, Map<number, string>>();

  constructor(database: SessionDatabase, mapping: RowMapping<Row>, log: Log | undefined) {
    this.#database = database;
    this.#mapping = mapping;
    this.#log = log;
  }

  /** False if a unique index rejects the row. */
  insert(row: Row): boolean {
    return this.#database.run(this.#mapping.insertSql, ...this.#mapping.values(row)) > 0;
  }

  /** Like `insert`, if `rest`, which follows the values, yields a row: `FROM … WHERE …`. */
  insertGiven(row: Row, rest: string, ...values: readonly SQLInputValue[]): boolean {
    const sql = this.#mapping.insertGivenSql(rest);
    return this.#database.run(sql, ...this.#mapping.values(row).concat(values)) > 0;
  }

  first(where: string, ...values: readonly SQLInputValue[]): Row | undefined {
    return this.#firstOf(this.#database.rows(this.#select(`WHERE ${where}`), ...values));
  }

  /**
   * `rest` follows FROM. One unreadable row fails the whole call, because a missing row would count
   * as deleted.
   */
  all(rest: string, ...values: readonly SQLInputValue[]): Row[] {
    return this.#database
      .rows(this.#select(rest), ...values)
      .map((stored) => this.#mapping.read(stored));
  }

  /** Returns the changed row. A patch may be empty. */
  update(patch: Partial<Row>, where: string, ...values: readonly SQLInputValue[]): Row | undefined {
    const assignments = this.#mapping.assignments(patch);
    if (assignments.set === 0) return this.first(where, ...values);
    const sql = `${this.#updateSql(assignments, where)} RETURNING ${this.#mapping.columns}`;
    return this.#firstOf(this.#database.rows(sql, ...assignments.values, ...values));
  }

  /** Like `update`, for any number of rows. */
  updateAll(patch: Partial<Row>, where: string, ...values: readonly SQLInputValue[]): Row[] {
    const assignments = this.#mapping.assignments(patch);
    const sql = `${this.#updateSql(assignments, where)} RETURNING ${this.#mapping.columns}`;
    return this.#database
      .rows(sql, ...assignments.values, ...values)
      .map((stored) => this.#mapping.read(stored));
  }

  /** Like `update`, without returning the row; returns whether there was one. */
  change(patch: Partial<Row>, where: string, ...values: readonly SQLInputValue[]): boolean {
    const assignments = this.#mapping.assignments(patch);
    if (assignments.set === 0) return this.first(where, ...values) !== undefined;
    const sql = this.#updateSql(assignments, where);
    return this.#database.run(sql, ...assignments.values.concat(values)) > 0;
  }

  /**
   * In descending order. A cursor names the last row of its page, so inserted and deleted rows
   * shift nothing. An unreadable row is skipped and logged, so it does not hide all others.
   */
  page(
    sortedBy: SortedBy,
    conditions: readonly Condition[],
    { limit, cursor }: PageRequest,
  ): Page<Row> {
    const all = [...conditions];
    const terms = Object.keys(sortedBy);
    if (cursor !== undefined) {
      const marks = terms.map(() => "?").join(", ");
      const values = decodeCursor(cursor, Object.values(sortedBy));
      all.push({ sql: `(${terms.join(", ")}) < (${marks})`, values });
    }
    const where = all.map(({ sql }) => sql).join(" AND ");
    const found = this.#database.rows(
      `SELECT ${this.#mapping.columns}, ${terms.map((term, index) => `${term} AS sorted_by_${index}`).join(", ")}
       FROM ${this.#mapping.name}
       WHERE ${where} ORDER BY ${terms.join(" DESC, ")} DESC LIMIT ?`,
      ...all.flatMap(({ values }) => values),
      limit + 1,
    );
    const shown = found.slice(0, limit);
    const last = found.length > limit ? shown.at(-1) : undefined;
    const rows = shown.flatMap((stored) => this.#readable(stored));
    if (last === undefined) return { rows };
    const position = terms.map((_, index) => last[`sorted_by_${index}`] as number | string);
    return { rows, nextCursor: encodeCursor(position) };
  }

  #select(rest: string): string {
    return `SELECT ${this.#mapping.columns} FROM ${this.#mapping.name} ${rest}`;
  }

  #updateSql({ set, columns }: Assignments, where: string): string {
    const known = this.#updates.get(where) ?? new Map<number, string>();
    this.#updates.set(where, known);
    let sql = known.get(set);
    if (sql === undefined) {
      const assignments = columns.map((column) => `${column} = ?`).join(", ");
      sql = `UPDATE ${this.#mapping.name} SET ${assignments} WHERE ${where}`;
      known.set(set, sql);
    }
    return sql;
  }

  #firstOf([stored]: readonly StoredRow[]): Row | undefined {
    return stored === undefined ? undefined : this.#mapping.read(stored);
  }

  #readable(stored: StoredRow): Row[] {
    try {
      return [this.#mapping.read(stored)];
    } catch (error) {
      if (!(error instanceof SandboxError)) throw error;
      this.#log?.error({ err: error }, "skipped an unreadable row in a list");
      return [];
    }
  }
}
