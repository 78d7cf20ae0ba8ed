/** The table of workspaces. */
import type { Log } from "../../ports/log.ts";
import type { Admitted, WorkspaceRow } from "../../ports/session-store.ts";
import { workspaceMapping } from "../row-mappings.ts";
import type { SessionDatabase } from "./session-database.ts";
import { Table } from "./table.ts";

const IS_THIS = "owner = ? AND id = ?";

export class WorkspaceRows {
  readonly #database: SessionDatabase;
  readonly #table: Table<WorkspaceRow>;

  constructor(database: SessionDatabase, log: Log | undefined) {
    this.#database = database;
    this.#table = new Table(database, workspaceMapping, log);
  }

  insert(row: WorkspaceRow, maxWorkspaces: number): Admitted<WorkspaceRow> {
    return this.#database.write("adds", "adding a workspace", () => {
      const existing = this.#table.first(IS_THIS, row.owner, row.id);
      if (existing !== undefined) return { inserted: false, existing };
      if (this.#countOf(row.owner) >= maxWorkspaces) return { inserted: false, overQuota: true };
      if (!this.#table.insert(row)) throw new Error(`the disk ${row.diskId} is taken`);
      return { inserted: true };
    });
  }

  #countOf(owner: string): number {
    const sql = "SELECT count(*) AS n FROM workspaces WHERE owner = ?";
    const [counted] = this.#database.rows(sql, owner);
    return Number(counted?.["n"]);
  }

  touch(diskId: string, lastUsedAtMs: number): boolean {
    const sql = `UPDATE workspaces SET last_used_at_ms = max(?, created_at_ms + 1)
      WHERE disk_id = ? AND ending_fence IS NULL`;
    return this.#database.write(
      "changes",
      "changing a workspace",
      () => this.#database.run(sql, lastUsedAtMs, diskId) > 0,
    );
  }

  get(owner: string, id: string): WorkspaceRow | undefined {
    return this.#database.read("reading a workspace", () => this.#table.first(IS_THIS, owner, id));
  }

  list(owner: string): WorkspaceRow[] {
    return this.#database.read("listing workspaces", () =>
      this.#table.all("WHERE owner = ? ORDER BY id", owner),
    );
  }

  all(): WorkspaceRow[] {
    return this.#database.read("listing workspaces", () => this.#table.all("ORDER BY owner, id"));
  }

  delete(diskId: string): void {
    this.#database.write("changes", "forgetting a workspace", () => {
      this.#database.run("DELETE FROM workspaces WHERE disk_id = ?", diskId);
    });
  }

  /** Every other token is dead. */
  end(diskId: string, fence: number, ifUnused: boolean): "begun" | "inherited" | undefined {
    return this.#database.write("changes", "ending a workspace", () => {
      const row = this.#table.first("disk_id = ?", diskId);
      if (row === undefined) return undefined;
      if (ifUnused && row.lastUsedAtMs !== row.createdAtMs) return undefined;
      this.#database.run("UPDATE workspaces SET ending_fence = ? WHERE disk_id = ?", fence, diskId);
      return row.endingFence === undefined ? "begun" : "inherited";
    });
  }

  keep(diskId: string, fence: number): void {
    this.#database.write("changes", "keeping a workspace", () => {
      const sql =
        "UPDATE workspaces SET ending_fence = NULL WHERE disk_id = ? AND ending_fence = ?";
      this.#database.run(sql, diskId, fence);
    });
  }
}
