/** The table of sandboxes without a session. */
import type { SideSandboxRow } from "../../ports/session-store.ts";
import { sideSandboxMapping } from "../row-mappings.ts";
import type { SessionDatabase } from "./session-database.ts";
import { Table } from "./table.ts";

export class SideSandboxRows {
  readonly #database: SessionDatabase;
  readonly #table: Table<SideSandboxRow>;

  constructor(database: SessionDatabase) {
    this.#database = database;
    this.#table = new Table(database, sideSandboxMapping, undefined);
  }

  insert(row: SideSandboxRow): void {
    this.#database.write("adds", "adding a sandbox", () => {
      if (!this.#table.insert(row)) throw new Error(`the id ${row.id} is taken`);
    });
  }

  delete(id: string): void {
    this.#database.write("changes", "forgetting a sandbox", () => {
      this.#database.run("DELETE FROM side_sandboxes WHERE id = ?", id);
    });
  }

  /** Deletes what earlier runs of the daemon created. */
  deleteOthers(fence: number): void {
    this.#database.write("changes", "forgetting sandboxes", () => {
      this.#database.run("DELETE FROM side_sandboxes WHERE fence <> ?", fence);
    });
  }

  at(place: string): string[] {
    return this.#database.read("listing sandboxes", () =>
      this.#table.all("WHERE place = ?", place).map(({ id }) => id),
    );
  }
}
