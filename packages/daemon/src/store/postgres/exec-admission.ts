/** Inserts commands within their owner's quota, in one round trip. */
import { lostOwnership } from "../../ports/lost-ownership.ts";
import type { Admitted, ExecRow } from "../../ports/session-store.ts";
import { execMapping } from "../row-mappings.ts";
import { admit } from "./admit.ts";
import type { Database } from "./database.ts";
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
    const { count } = await this.#parts.database.run("adding a command", INSERT, values);
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

/**
 * The session's row is locked, so a claim happens before or after. `is_far_from_quota` counts after
 * it has its own lock.
 */
const INSERT = `
  INSERT INTO execs (${execMapping.columns}) SELECT ${columns.map(valueOf).join(", ")}
  FROM (
    SELECT FROM sessions WHERE id = ${valueOf("session_id")} AND fence = $${columns.length + 1} FOR SHARE
  ) AS served
  WHERE is_far_from_quota(${valueOf("owner")}, $${columns.length + 2})
  ON CONFLICT DO NOTHING`;

const ADMIT = "SELECT admit_exec($1::jsonb, $2, $3) AS verdict";
