/** Builds the SET clause for columns and values. */
import { sql } from "kysely";
import type { RawBuilder } from "kysely";

/** Undefined if there is nothing to set. */
export function assignmentsOf(
  changes: Readonly<Record<string, unknown>>,
): RawBuilder<unknown> | undefined {
  const entries = Object.entries(changes);
  if (entries.length === 0) return undefined;
  return sql.join(entries.map(([column, value]) => sql`${sql.ref(column)} = ${value}`));
}
