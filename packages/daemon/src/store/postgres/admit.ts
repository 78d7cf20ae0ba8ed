/** Inserts a row within its quota, or finds the existing one that conflicts. */
import { sql } from "kysely";
import type { RawBuilder } from "kysely";
import { heldForDead } from "../../ports/lost-ownership.ts";
import type { Admitted } from "../../ports/session-store.ts";
import type { Database } from "./database.ts";
import { databaseFailure } from "./database-failure.ts";

/** How often a conflicting row may disappear before it is read. */
const MAX_ATTEMPTS = 10;

export async function admit<T, Other = never>(
  id: string,
  /** The verdict of the database function. */
  ask: () => Promise<string>,
  inTheWay: () => Promise<T | undefined>,
  /** What further verdicts mean. */
  others: Readonly<Record<string, Other>> = {},
): Promise<Admitted<T> | Other> {
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
    const verdict = await ask();
    if (verdict === "inserted") return { inserted: true };
    if (verdict === "full") return { inserted: false, overQuota: true };
    if (verdict === "dead") throw heldForDead();
    const other = others[verdict];
    if (other !== undefined) return other;
    const existing = verdict === "exists" ? await inTheWay() : undefined;
    if (existing !== undefined) return { inserted: false, existing };
  }
  throw databaseFailure(new Error(`the id ${id} is taken`), "adding a row");
}

/** What a function of the database says. */
export async function verdictOf(
  database: Database,
  doing: string,
  call: RawBuilder<unknown>,
): Promise<string> {
  const [row] = await database.rows(doing, sql`SELECT ${call} AS verdict`);
  return String(row?.["verdict"]);
}
