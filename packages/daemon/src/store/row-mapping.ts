/** Converts rows between the port's objects and a table, and generates the SQL that depends on its columns. */
import type { SQLInputValue, SQLOutputValue } from "node:sqlite";
import { SandboxError } from "@sandkasten/protocol";
import type { Column, Columns } from "./columns.ts";

export type StoredRow = Readonly<Record<string, SQLOutputValue>>;

/** Columns to set, and their values. */
export interface Assignments {
  /** Equal for equal sets of columns. */
  readonly set: number;
  readonly columns: readonly string[];
  readonly values: readonly SQLInputValue[];
}

interface Field {
  readonly property: string;
  readonly column: string;
  readonly kind: Column<unknown>;
}

export class RowMapping<Row extends object> {
  /** The table's name. */
  readonly name: string;
  /** All columns, for SELECT and RETURNING. */
  readonly columns: string;
  readonly insertSql: string;
  readonly #fields: readonly Field[];
  readonly #insertsGiven = new Map<string, string>();

  constructor(name: string, columns: Columns<Row>) {
    this.name = name;
    this.#fields = Object.entries(columns).map(([property, kind]) => ({
      property,
      column: property.replaceAll(/[A-Z]/gu, (letter) => `_${letter.toLowerCase()}`),
      kind: kind as Column<unknown>,
    }));
    this.columns = this.#fields.map(({ column }) => column).join(", ");
    const marks = this.#fields.map(() => "?").join(", ");
    this.insertSql = `INSERT INTO ${name} (${this.columns}) VALUES (${marks}) ON CONFLICT DO NOTHING`;
  }

  /** Like `insertSql`, for a row that is inserted only if `rest` yields one. */
  insertGivenSql(rest: string): string {
    let sql = this.#insertsGiven.get(rest);
    if (sql === undefined) {
      const marks = this.#fields.map(() => "?").join(", ");
      sql = `INSERT INTO ${this.name} (${this.columns}) SELECT ${marks} ${rest} ON CONFLICT DO NOTHING`;
      this.#insertsGiven.set(rest, sql);
    }
    return sql;
  }

  /** The column values by name. */
  record(row: Row): Record<string, SQLInputValue> {
    const values = this.values(row);
    return Object.fromEntries(this.#fields.map(({ column }, at) => [column, values[at] ?? null]));
  }

  /** The columns that a patch sets, by name. */
  changes(patch: Partial<Row>): Record<string, SQLInputValue> {
    const { columns, values } = this.assignments(patch);
    return Object.fromEntries(columns.map((column, at) => [column, values[at] ?? null]));
  }

  /** In the order of `insertSql`. */
  values(row: Row): SQLInputValue[] {
    const properties = row as Readonly<Record<string, unknown>>;
    return this.#fields.map(({ property, kind }) => {
      const value = properties[property];
      return value === undefined ? null : kind.write(value);
    });
  }

  /** In column order, independent of the patch: equal sets of properties generate equal SQL. */
  assignments(patch: Partial<Row>): Assignments {
    const properties = patch as Readonly<Record<string, unknown>>;
    const columns: string[] = [];
    const values: SQLInputValue[] = [];
    let set = 0;
    let bit = 1;
    for (const { property, column, kind } of this.#fields) {
      const value = properties[property];
      if (value !== undefined) {
        columns.push(column);
        values.push(kind.write(value));
        set += bit;
      }
      bit *= 2;
    }
    return { set, columns, values };
  }

  /** Rejects a row that the daemon cannot have written: the file was modified by something else. */
  read(stored: StoredRow): Row {
    const row: Record<string, unknown> = {};
    for (const { property, column, kind } of this.#fields) {
      const value = stored[column] ?? null;
      if (value === null && kind.isOptional === true) continue;
      row[property] = kind.read(value);
      if (row[property] === undefined) throw this.#unreadable(stored, column);
    }
    return row as Row;
  }

  #unreadable(stored: StoredRow, column: string): SandboxError {
    return new SandboxError(
      "INTERNAL_ERROR",
      `Row ${JSON.stringify(stored["id"])} of the table ${this.name} cannot be read: its ${column} has an invalid value. Correct or delete that row while the daemon is stopped.`,
    );
  }
}
