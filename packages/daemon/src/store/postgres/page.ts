/** A page of a list, in descending order. */
import { SandboxError } from "@sandkasten/protocol";
import { sql } from "kysely";
import type { RawBuilder } from "kysely";
import type { Log } from "../../ports/log.ts";
import type { Page } from "../../ports/session-store.ts";
import { decodeCursor, encodeCursor } from "../page-cursor.ts";
import type { RowMapping, StoredRow } from "../row-mapping.ts";

export interface PageQuery {
  /** SQL expressions that a list is sorted by, and their types. */
  readonly sortedBy: Readonly<Record<string, "number" | "string">>;
  readonly conditions: readonly RawBuilder<unknown>[];
  readonly rows: (query: RawBuilder<unknown>) => Promise<readonly StoredRow[]>;
  readonly log: Log | undefined;
}

/**
 * A cursor names the last row of its page, so inserted and deleted rows shift nothing. An
 * unreadable row is skipped and logged, so it does not hide all others.
 */
export async function pageOf<Row extends object>(
  mapping: RowMapping<Row>,
  { limit, cursor }: { readonly limit: number; readonly cursor?: string },
  { sortedBy, conditions, rows, log }: PageQuery,
): Promise<Page<Row>> {
  const terms = Object.keys(sortedBy);
  const all = [...conditions];
  if (cursor !== undefined) {
    const position = decodeCursor(cursor, Object.values(sortedBy)).map((value) => sql`${value}`);
    all.push(sql`(${sql.raw(terms.join(", "))}) < (${sql.join(position)})`);
  }
  const positions = terms.map((term, at) => `${term} AS sorted_by_${at}`).join(", ");
  const found = await rows(
    sql`SELECT ${sql.raw(mapping.columns)}, ${sql.raw(positions)} FROM ${sql.table(mapping.name)}
        WHERE ${sql.join(all, sql` AND `)}
        ORDER BY ${sql.raw(terms.map((term) => `${term} DESC`).join(", "))} LIMIT ${limit + 1}`,
  );
  const shown = found.slice(0, limit);
  const last = found.length > limit ? shown.at(-1) : undefined;
  const page = { rows: shown.flatMap((stored) => readable(mapping, stored, log)) };
  if (last === undefined) return page;
  const position = terms.map((_, at) => last[`sorted_by_${at}`] as number | string);
  return { ...page, nextCursor: encodeCursor(position) };
}

function readable<Row extends object>(
  mapping: RowMapping<Row>,
  stored: StoredRow,
  log: Log | undefined,
): Row[] {
  try {
    return [mapping.read(stored)];
  } catch (error) {
    if (!(error instanceof SandboxError)) throw error;
    log?.error({ err: error }, "skipped an unreadable row in a list");
    return [];
  }
}
