/**
 * The commands that have not ended, by owner. They are counted in memory, since only this process
 * writes the database, and an index of them would make each command write another page.
 */
import type { ExecRow } from "../../ports/session-store.ts";
import type { SessionDatabase } from "./session-database.ts";

type Unfinished = Pick<ExecRow, "id" | "sessionId" | "owner">;

interface Names {
  readonly owner: string;
  readonly sessionId: string;
}

export class UnfinishedExecs {
  /** By session and id. */
  readonly #all = new Map<string, Names>();
  readonly #counts = new Map<string, number>();

  /** Reads the whole table once, as the check of the database did before. */
  constructor(database: SessionDatabase) {
    const rows = database.read("counting commands", () =>
      database.rows("SELECT id, session_id, owner FROM execs WHERE status <> 'done'"),
    );
    for (const { id, session_id: sessionId, owner } of rows)
      this.add({ id: String(id), sessionId: String(sessionId), owner: String(owner) });
  }

  count(owner: string): number {
    return this.#counts.get(owner) ?? 0;
  }

  add({ id, sessionId, owner }: Unfinished): void {
    this.#all.set(nameOf(sessionId, id), { owner, sessionId });
    this.#counts.set(owner, this.count(owner) + 1);
  }

  /** Returns what it removed, to be added again if the end cannot be written. */
  remove(sessionId: string, id: string): Unfinished | undefined {
    const found = this.#all.get(nameOf(sessionId, id));
    if (found === undefined) return undefined;
    this.#all.delete(nameOf(sessionId, id));
    const left = this.count(found.owner) - 1;
    if (left === 0) this.#counts.delete(found.owner);
    else this.#counts.set(found.owner, left);
    return { id, ...found };
  }

  /** The sessions were deleted, and their commands with them. */
  forget(sessionIds: readonly string[]): void {
    const gone = new Set(sessionIds);
    for (const [name, { sessionId }] of this.#all)
      if (gone.has(sessionId)) this.remove(sessionId, name.slice(sessionId.length + 1));
  }
}

function nameOf(sessionId: string, id: string): string {
  return `${sessionId}/${id}`;
}
