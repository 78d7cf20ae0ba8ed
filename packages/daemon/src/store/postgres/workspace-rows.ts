/** The table of workspaces. */
import { sql } from "kysely";
import type { RawBuilder } from "kysely";
import type { Admitted, WorkspaceRow } from "../../ports/session-store.ts";
import { workspaceMapping } from "../row-mappings.ts";
import { admit, verdictOf } from "./admit.ts";
import type { Database } from "./database.ts";

const columns = sql.raw(workspaceMapping.columns);

export class WorkspaceRows {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  async insert(row: WorkspaceRow, maxWorkspaces: number): Promise<Admitted<WorkspaceRow>> {
    const given = JSON.stringify(workspaceMapping.record(row));
    const call = sql`admit_workspace(${given}::jsonb, ${maxWorkspaces})`;
    return await admit(
      row.diskId,
      () => verdictOf(this.#database, "adding a workspace", call),
      () => this.get(row.owner, row.id),
    );
  }

  async touch(diskId: string, lastUsedAtMs: number): Promise<boolean> {
    const touched = await this.#database.rows(
      "changing a workspace",
      sql`UPDATE workspaces SET last_used_at_ms = greatest(${lastUsedAtMs}, created_at_ms + 1)
          WHERE disk_id = ${diskId} AND ending_fence IS NULL RETURNING disk_id`,
    );
    return touched.length > 0;
  }

  async get(owner: string, id: string): Promise<WorkspaceRow | undefined> {
    const [row] = await this.#read(sql`WHERE owner = ${owner} AND id = ${id}`);
    return row;
  }

  async list(owner: string): Promise<readonly WorkspaceRow[]> {
    return await this.#read(sql`WHERE owner = ${owner} ORDER BY id COLLATE "C"`);
  }

  async all(): Promise<readonly WorkspaceRow[]> {
    return await this.#read(sql`ORDER BY owner COLLATE "C", id COLLATE "C"`);
  }

  async delete(diskId: string): Promise<void> {
    await this.#database.rows(
      "forgetting a workspace",
      sql`DELETE FROM workspaces WHERE disk_id = ${diskId}`,
    );
  }

  async end(
    diskId: string,
    fence: number,
    ifUnused: boolean,
  ): Promise<"begun" | "inherited" | undefined> {
    const [ended] = await this.#database.rows(
      "ending a workspace",
      sql`WITH before AS (SELECT disk_id, ending_fence FROM workspaces WHERE disk_id = ${diskId} FOR UPDATE)
          UPDATE workspaces SET ending_fence = ${fence} FROM before
          WHERE workspaces.disk_id = before.disk_id
            AND is_living_daemon(${fence})
            AND (before.ending_fence IS NULL OR before.ending_fence = ${fence}
              OR before.ending_fence NOT IN (SELECT fence FROM daemons WHERE is_dead = 0))
            AND (NOT ${ifUnused} OR last_used_at_ms = created_at_ms)
          RETURNING before.ending_fence AS earlier`,
    );
    if (ended === undefined) return undefined;
    return ended["earlier"] === null ? "begun" : "inherited";
  }

  async keep(diskId: string, fence: number): Promise<void> {
    await this.#database.rows(
      "keeping a workspace",
      sql`UPDATE workspaces SET ending_fence = NULL
          WHERE disk_id = ${diskId} AND ending_fence = ${fence}`,
    );
  }

  async #read(rest: RawBuilder<unknown>): Promise<readonly WorkspaceRow[]> {
    const query = sql`SELECT ${columns} FROM workspaces ${rest}`;
    return await this.#database.read("reading workspaces", workspaceMapping, query);
  }
}
