/** Inserts commands within their owner's quota, in one round trip. */
import { lostOwnership } from "../../ports/lost-ownership.ts";
import type { Admitted, ExecRow } from "../../ports/session-store.ts";
import { execMapping } from "../row-mappings.ts";
import { admit } from "./admit.ts";
import { codeOf } from "./database-failure.ts";
import type { Database } from "./database.ts";
import { setTo } from "./exec-changes.ts";
import type { ExecChanges } from "./exec-changes.ts";
import { SIDE_BY_SIDE } from "./functions.ts";

export interface ExecAdmissionParts {
  readonly database: Database;
  /** The ends that this daemon has not written yet are among them. */
  readonly changes: ExecChanges;
  /** The command of the session that has the idempotency key. */
  readonly find: (sessionId: string, idempotencyKey: string) => Promise<ExecRow | undefined>;
}

export class ExecAdmission {
  readonly #parts: ExecAdmissionParts;

  constructor(parts: ExecAdmissionParts) {
    this.#parts = parts;
  }

  /** Nearly always, the quota is far away, and one statement is enough. */
  async insert(row: ExecRow, fence: number, maxRunning: number): Promise<Admitted<ExecRow>> {
    if (maxRunning > SIDE_BY_SIDE && (await this.#insertFarFromQuota(row, fence, maxRunning)))
      return { inserted: true };
    return await this.#admit(row, fence, maxRunning);
  }

  async #insertFarFromQuota(row: ExecRow, fence: number, maxRunning: number): Promise<boolean> {
    const values = [...execMapping.values(row), fence, maxRunning];
    const ends = this.#parts.changes.take(row.sessionId, fence);
    if (ends === undefined) return await this.#insert(INSERT, values);
    let isInserted: boolean | undefined;
    try {
      isInserted = await this.#insert(INSERT_AFTER_ENDS, [...values, ends.given]);
    } catch (error) {
      if (!isBadData(error)) throw error;
    } finally {
      ends.done(isInserted === true);
    }
    // An end that the database refuses fails alone.
    return isInserted ?? (await this.#insert(INSERT, values));
  }

  async #insert(statement: string, values: readonly unknown[]): Promise<boolean> {
    const { count } = await this.#parts.database.run("adding a command", statement, values);
    return count === 1;
  }

  /** Decides why the row was not inserted, or inserts it. */
  async #admit(row: ExecRow, fence: number, maxRunning: number): Promise<Admitted<ExecRow>> {
    const { database, changes, find } = this.#parts;
    const { sessionId, idempotencyKey } = row;
    const values = [JSON.stringify(execMapping.record(row)), fence, maxRunning];
    return await admit(
      row.id,
      async () => {
        const { rows } = await database.run("adding a command", ADMIT, values);
        const verdict = String(rows[0]?.["verdict"]);
        if (verdict === "lost") throw lostOwnership(sessionId);
        if (verdict === "full") await changes.flush();
        return verdict;
      },
      async () =>
        idempotencyKey === undefined ? undefined : await find(sessionId, idempotencyKey),
    );
  }
}

const columns = execMapping.columns.split(", ");
const valueOf = (column: string): string => `$${columns.indexOf(column) + 1}`;

const served = `
  SELECT id FROM sessions
  WHERE id = ${valueOf("session_id")} AND fence = $${columns.length + 1} FOR SHARE`;
const insertFrom = (source: string): string => `
  INSERT INTO execs (${execMapping.columns}) SELECT ${columns.map(valueOf).join(", ")}
  FROM ${source}
  WHERE is_far_from_quota(${valueOf("owner")}, $${columns.length + 2})
  ON CONFLICT DO NOTHING`;

/**
 * The session's row is locked, so a claim happens before or after. `is_far_from_quota` counts after
 * it has its own lock.
 */
const INSERT = insertFrom(`(${served}) AS served`);

/**
 * Whoever finds the command in the database finds the ends before it, too: after a kill, the next
 * daemon tells of them in this order.
 */
const INSERT_AFTER_ENDS = `
  WITH served AS (${served}), ended AS (
    UPDATE execs SET ${setTo("change.patch")}
    FROM served, jsonb_to_recordset($${columns.length + 3}::jsonb) AS change (id TEXT, patch JSONB)
    WHERE execs.session_id = served.id AND execs.id = change.id
  )
  ${insertFrom("served")}`;

const ADMIT = "SELECT admit_exec($1::jsonb, $2, $3) AS verdict";

/** Whether the database refused values, so it wrote nothing. */
function isBadData(error: unknown): boolean {
  return error instanceof Error && codeOf(error.cause)?.startsWith("22") === true;
}
