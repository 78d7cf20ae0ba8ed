/** Lets a row in, within its quota, or finds the one that stands in its way. */
import { heldForDead } from "../../ports/session-store.ts";
import type { Admitted } from "../../ports/session-store.ts";
import { databaseFailure } from "./database-failure.ts";

/** How often a row that stands in the way may be gone again when it is looked for. */
const MAX_ATTEMPTS = 10;

export async function admit<T>(
  id: string,
  /** What the function of the database says of it. */
  verdictOf: () => Promise<string>,
  inTheWay: () => Promise<T | undefined>,
): Promise<Admitted<T>> {
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
    const verdict = await verdictOf();
    if (verdict === "inserted") return { inserted: true };
    if (verdict === "full") return { inserted: false, overQuota: true };
    if (verdict === "dead") throw heldForDead();
    const existing = verdict === "exists" ? await inTheWay() : undefined;
    if (existing !== undefined) return { inserted: false, existing };
  }
  throw databaseFailure(new Error(`the id ${id} is taken`), "adding a row");
}
