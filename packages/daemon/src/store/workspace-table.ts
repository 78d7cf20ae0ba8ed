/** The table of workspaces. */
import type { Log } from "../ports/log.ts";
import type { Inserted, WorkspaceRow } from "../ports/session-store.ts";
import { number, text } from "./columns.ts";
import { RowMapping } from "./row-mapping.ts";
import type { SessionDatabase } from "./session-database.ts";
import { Table } from "./table.ts";

const mapping = new RowMapping<WorkspaceRow>("workspaces", {
  id: text,
  owner: text,
  backend: text,
  diskId: text,
  createdAtMs: number,
  lastUsedAtMs: number,
});

const IS_THIS = "owner = ? AND id = ?";

export class WorkspaceTable {
  readonly #database: SessionDatabase;
  readonly #table: Table<WorkspaceRow>;

  constructor(database: SessionDatabase, log: Log | undefined) {
    this.#database = database;
    this.#table = new Table(database, mapping, log);
  }

  insert(row: WorkspaceRow): Inserted<WorkspaceRow> {
    return this.#database.write("adds", "adding a workspace", () => {
      if (this.#table.insert(row)) return { inserted: true };
      const existing = this.#table.first(IS_THIS, row.owner, row.id);
      if (existing === undefined) throw new Error(`the disk ${row.diskId} is taken`);
      return { inserted: false, existing };
    });
  }

  touch(owner: string, id: string, lastUsedAtMs: number): void {
    this.#database.write("changes", "changing a workspace", () => {
      this.#table.change({ lastUsedAtMs }, IS_THIS, owner, id);
    });
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

  delete(owner: string, id: string): void {
    this.#database.write("changes", "forgetting a workspace", () => {
      this.#database.run(`DELETE FROM workspaces WHERE ${IS_THIS}`, owner, id);
    });
  }
}
