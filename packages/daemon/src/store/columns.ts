/** Maps row values to columns, and validates stored values. */
import type { SQLInputValue, SQLOutputValue } from "node:sqlite";
import type { z } from "zod";

export interface Column<T> {
  readonly write: (value: T) => SQLInputValue;
  /** Undefined for a value that no `write` can have written. */
  readonly read: (stored: SQLOutputValue) => T | undefined;
  /** May be NULL, for a property that is absent. */
  readonly isOptional?: true;
}

/** A column for every property; those that may be absent are `optional`. */
export type Columns<Row> = {
  readonly [Name in keyof Row]-?: undefined extends Row[Name]
    ? Column<Exclude<Row[Name], undefined>> & { readonly isOptional: true }
    : Column<Row[Name]>;
};

export const text: Column<string> = {
  write: (value) => value,
  read: (stored) => (typeof stored === "string" ? stored : undefined),
};

export const number: Column<number> = {
  write: (value) => value,
  read: (stored) => (typeof stored === "number" ? stored : undefined),
};

export const flag: Column<boolean> = {
  write: (value) => (value ? 1 : 0),
  read: (stored) => (stored === 1 || stored === 0 ? stored === 1 : undefined),
};

export function oneOf<const T extends string>(values: readonly T[]): Column<T> {
  return {
    write: (value) => value,
    read: (stored) => values.find((value) => value === stored),
  };
}

export function json<T>(schema: z.ZodType<T>): Column<T> {
  return {
    write: (value) => JSON.stringify(value),
    read: (stored) => (typeof stored === "string" ? parsed(schema, stored) : undefined),
  };
}

export function optional<T>(column: Column<T>): Column<T> & { readonly isOptional: true } {
  return { ...column, isOptional: true };
}

function parsed<T>(schema: z.ZodType<T>, stored: string): T | undefined {
  let value: unknown;
  try {
    value = JSON.parse(stored);
  } catch {
    return undefined; // Invalid JSON is rejected like JSON of another shape.
  }
  return schema.safeParse(value).data;
}
