/** Stores sessions, commands and workspaces in one SQLite file. */
import { setImmediate as otherWork } from "node:timers/promises";
import type { SessionStatus } from "@sandkasten/protocol";
import type { Log } from "../../ports/log.ts";
import type {
  Admitted,
  AdmittedSession,
  Claimed,
  ClockReading,
  DaemonRow,
  ExecPatch,
  ExecRow,
  Joined,
  Page,
  SessionFilter,
  SessionPatch,
  SessionRow,
  SessionStore,
  SideSandboxRow,
  WorkspaceRow,
} from "../../ports/session-store.ts";
import { heldForDead } from "../../ports/lost-ownership.ts";
import { DaemonRows } from "./daemon-rows.ts";
import { ExecRows } from "./exec-rows.ts";
import { SessionDatabase } from "./session-database.ts";
import { SessionRows } from "./session-rows.ts";
import { SideSandboxRows } from "./side-sandbox-rows.ts";
import type { PageRequest } from "./table.ts";
import { WorkspaceRows } from "./workspace-rows.ts";

/** Sessions deleted in one transaction, to keep both the log and the wait of others short. */
const FORGET_AT_ONCE = 100;

export interface SqliteSessionStoreOptions {
  /** `:memory:` for one that ends with the process. */
  readonly path: string;
  readonly log?: Log;
}

/**
 * SQLite is synchronous, so every method has done its work before it returns a promise: two calls
 * never interleave, and compare-and-set needs no lock. Only ends of commands wait for a moment.
 */
export class SqliteSessionStore implements SessionStore {
  readonly isNew: boolean;
  readonly heartbeat = { intervalMs: 30_000 };
  readonly #database: SessionDatabase;
  readonly #daemons: DaemonRows;
  readonly #sideSandboxes: SideSandboxRows;
  readonly #sessions: SessionRows;
  readonly #execs: ExecRows;
  readonly #workspaces: WorkspaceRows;
  readonly #log: Log | undefined;

  private constructor(database: SessionDatabase, log: Log | undefined) {
    this.isNew = database.isNew;
    this.#database = database;
    this.#daemons = new DaemonRows(database);
    this.#sideSandboxes = new SideSandboxRows(database);
    this.#sessions = new SessionRows(database, log);
    this.#execs = new ExecRows(database, log);
    this.#workspaces = new WorkspaceRows(database, log);
    this.#log = log;
  }

  /** CONFLICT if another process has it open; INTERNAL_ERROR if it is damaged, newer, or not ours. */
  static async open({ path, log }: SqliteSessionStoreOptions): Promise<SqliteSessionStore> {
    return new SqliteSessionStore(await SessionDatabase.open(path, log), log);
  }

  async settle(): Promise<void> {
    this.#database.settle();
  }

  async join(address: string | undefined, reading: ClockReading): Promise<Joined> {
    return this.#daemons.join(address, reading);
  }

  async beat(fence: number, storeMs: number, reading: ClockReading): Promise<number | undefined> {
    return this.#daemons.beat(fence, storeMs, reading);
  }

  async leave(fence: number): Promise<void> {
    this.#daemons.leave(fence);
  }

  async livingDaemon(fence: number): Promise<DaemonRow | undefined> {
    const living = this.#daemons.living(fence);
    if (living === undefined) return undefined;
    return { fence, ...(living.address !== null && { address: living.address }) };
  }

  /** Only this daemon uses the file, wherever the sandboxes are. */
  async claim(fence: number): Promise<Claimed> {
    if (this.#daemons.living(fence) === undefined) throw heldForDead();
    this.#execs.flush();
    this.#sideSandboxes.deleteOthers(fence);
    return { sessions: this.#sessions.claim(fence) };
  }

  async sandboxesAt(place: string): Promise<ReadonlySet<string>> {
    return new Set([...this.#sessions.sandboxesAt(place), ...this.#sideSandboxes.at(place)]);
  }

  async insertSideSandbox(row: SideSandboxRow): Promise<void> {
    if (this.#daemons.living(row.fence) === undefined) throw heldForDead();
    this.#sideSandboxes.insert(row);
  }

  async deleteSideSandbox(id: string): Promise<void> {
    this.#sideSandboxes.delete(id);
  }

  async insertSession(row: SessionRow, maxSessions: number): Promise<AdmittedSession> {
    if (this.#daemons.living(row.fence) === undefined) throw heldForDead();
    return this.#sessions.insert(row, maxSessions);
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

  async livingSessions(owner?: string): Promise<readonly SessionRow[]> {
    return this.#sessions.living(owner);
  }

  async updateSession(
    id: string,
    fence: number,
    from: readonly SessionStatus[],
    patch: SessionPatch,
  ): Promise<SessionRow | undefined> {
    return this.#sessions.update(id, fence, from, patch);
  }

  async forgetSessionsEndedBefore(wallMs: number): Promise<readonly string[]> {
    this.#execs.flush();
    const forgotten: string[] = [];
    for (let more = true; more; await otherWork()) {
      try {
        const ids = this.#sessions.forgetEndedBefore(wallMs, FORGET_AT_ONCE);
        forgotten.push(...ids);
        this.#execs.forget(ids);
        more = ids.length === FORGET_AT_ONCE;
      } catch (error) {
        if (forgotten.length === 0) throw error;
        // The caller must learn which sessions are gone; the rest fails again on the next call.
        this.#log?.warn({ err: error }, "stopped forgetting sessions");
        more = false;
      }
    }
    await this.#shrink();
    return forgotten;
  }

  /** Failing to shrink is harmless; it is retried when sessions are next deleted. */
  async #shrink(): Promise<void> {
    try {
      while (this.#database.shrink()) await otherWork();
    } catch (error) {
      this.#log?.warn({ err: error }, "cannot release free space of the database");
    }
  }

  async insertExec(row: ExecRow, fence: number, maxRunning: number): Promise<Admitted<ExecRow>> {
    return this.#execs.insert(row, fence, maxRunning);
  }

  async updateExec(sessionId: string, id: string, fence: number, patch: ExecPatch): Promise<void> {
    await this.#execs.update(sessionId, id, fence, patch);
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

  async unfinishedExecs(fence: number): Promise<readonly ExecRow[]> {
    return this.#execs.unfinished(fence);
  }

  async insertWorkspace(row: WorkspaceRow, maxWorkspaces: number): Promise<Admitted<WorkspaceRow>> {
    return this.#workspaces.insert(row, maxWorkspaces);
  }

  async touchWorkspace(diskId: string, lastUsedAtMs: number): Promise<boolean> {
    return this.#workspaces.touch(diskId, lastUsedAtMs);
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

  async deleteWorkspace(diskId: string): Promise<void> {
    this.#workspaces.delete(diskId);
  }

  async endWorkspace(
    diskId: string,
    fence: number,
    { ifUnused = false }: { readonly ifUnused?: boolean } = {},
  ): Promise<"begun" | "inherited" | undefined> {
    if (this.#daemons.living(fence) === undefined) return undefined;
    return this.#workspaces.end(diskId, fence, ifUnused);
  }

  async keepWorkspace(diskId: string, fence: number): Promise<void> {
    this.#workspaces.keep(diskId, fence);
  }

  close(): void {
    this.#execs.close();
    this.#database.close();
  }
}
