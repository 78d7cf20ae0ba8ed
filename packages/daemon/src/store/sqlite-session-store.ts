/** Remembers sessions, commands and workspaces in one SQLite file. */
import { setImmediate as otherWork } from "node:timers/promises";
import type { SessionStatus } from "@sandkasten/protocol";
import type { Log } from "../ports/log.ts";
import type {
  ExecPatch,
  ExecRow,
  Inserted,
  Page,
  SessionFilter,
  SessionPatch,
  SessionRow,
  SessionStore,
  WorkspaceRow,
} from "../ports/session-store.ts";
import { ExecTable } from "./exec-table.ts";
import { SessionDatabase } from "./session-database.ts";
import { SessionTable } from "./session-table.ts";
import type { PageRequest } from "./table.ts";
import { WorkspaceTable } from "./workspace-table.ts";

/** Sessions to forget in one transaction, so that neither the log nor the wait of others grows long. */
const FORGET_AT_ONCE = 100;

export interface SqliteSessionStoreOptions {
  /** `:memory:` for one that ends with the process. */
  readonly path: string;
  readonly log?: Log;
}

/**
 * SQLite answers at once, so every method has done its work before its promise is made: two calls
 * never interleave, and compare-and-set needs no lock.
 */
export class SqliteSessionStore implements SessionStore {
  readonly isNew: boolean;
  readonly #database: SessionDatabase;
  readonly #sessions: SessionTable;
  readonly #execs: ExecTable;
  readonly #workspaces: WorkspaceTable;
  readonly #log: Log | undefined;

  private constructor(database: SessionDatabase, log: Log | undefined) {
    this.isNew = database.isNew;
    this.#database = database;
    this.#sessions = new SessionTable(database, log);
    this.#execs = new ExecTable(database, log);
    this.#workspaces = new WorkspaceTable(database, log);
    this.#log = log;
  }

  /** CONFLICT when another process has it open; INTERNAL_ERROR when it is damaged, newer, or not ours. */
  static async open({ path, log }: SqliteSessionStoreOptions): Promise<SqliteSessionStore> {
    return new SqliteSessionStore(await SessionDatabase.open(path, log), log);
  }

  async settle(): Promise<void> {
    this.#database.settle();
  }

  async insertSession(row: SessionRow): Promise<Inserted<SessionRow>> {
    return this.#sessions.insert(row);
  }

  async getSession(id: string): Promise<SessionRow | undefined> {
    return this.#sessions.get(id);
  }

  async findByKey(owner: string, key: string): Promise<SessionRow | undefined> {
    return this.#sessions.findByKey(owner, key);
  }

  async listSessions(filter: SessionFilter): Promise<Page<SessionRow>> {
    return this.#sessions.list(filter);
  }

  async livingSessions(): Promise<readonly SessionRow[]> {
    return this.#sessions.living();
  }

  async updateSession(
    id: string,
    from: readonly SessionStatus[],
    patch: SessionPatch,
  ): Promise<SessionRow | undefined> {
    return this.#sessions.update(id, from, patch);
  }

  async forgetSessionsEndedBefore(wallMs: number): Promise<readonly string[]> {
    const forgotten: string[] = [];
    for (let more = true; more; await otherWork()) {
      try {
        const ids = this.#sessions.forgetEndedBefore(wallMs, FORGET_AT_ONCE);
        forgotten.push(...ids);
        more = ids.length === FORGET_AT_ONCE;
      } catch (error) {
        if (forgotten.length === 0) throw error;
        // Whoever asked has to learn which ones are gone; the rest fails again when it is next asked for.
        this.#log?.warn({ err: error }, "stopped forgetting sessions");
        more = false;
      }
    }
    await this.#shrink();
    return forgotten;
  }

  /** Failing to shrink harms nobody; it is tried again when sessions are next forgotten. */
  async #shrink(): Promise<void> {
    try {
      while (this.#database.shrink()) await otherWork();
    } catch (error) {
      this.#log?.warn({ err: error }, "cannot give room of the database back");
    }
  }

  async insertExec(row: ExecRow): Promise<Inserted<ExecRow>> {
    return this.#execs.insert(row);
  }

  async updateExec(sessionId: string, id: string, patch: ExecPatch): Promise<void> {
    this.#execs.update(sessionId, id, patch);
  }

  async getExec(sessionId: string, id: string): Promise<ExecRow | undefined> {
    return this.#execs.get(sessionId, id);
  }

  async findExec(sessionId: string, idempotencyKey: string): Promise<ExecRow | undefined> {
    return this.#execs.findByIdempotencyKey(sessionId, idempotencyKey);
  }

  async countExecsAfter(row: ExecRow): Promise<number> {
    return this.#execs.countAfter(row);
  }

  async listExecs(sessionId: string, options: PageRequest): Promise<Page<ExecRow>> {
    return this.#execs.list(sessionId, options);
  }

  async unfinishedExecs(): Promise<readonly ExecRow[]> {
    return this.#execs.unfinished();
  }

  async insertWorkspace(row: WorkspaceRow): Promise<Inserted<WorkspaceRow>> {
    return this.#workspaces.insert(row);
  }

  async touchWorkspace(owner: string, id: string, lastUsedAtMs: number): Promise<void> {
    this.#workspaces.touch(owner, id, lastUsedAtMs);
  }

  async getWorkspace(owner: string, id: string): Promise<WorkspaceRow | undefined> {
    return this.#workspaces.get(owner, id);
  }

  async listWorkspaces(owner: string): Promise<readonly WorkspaceRow[]> {
    return this.#workspaces.list(owner);
  }

  async allWorkspaces(): Promise<readonly WorkspaceRow[]> {
    return this.#workspaces.all();
  }

  async deleteWorkspace(owner: string, id: string): Promise<void> {
    this.#workspaces.delete(owner, id);
  }

  close(): void {
    this.#database.close();
  }
}
