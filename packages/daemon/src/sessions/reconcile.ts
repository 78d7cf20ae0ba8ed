/** Brings memory, store and backends together after a start: living sandboxes are adopted, remains removed. */
import { SandboxError } from "@sandkasten/protocol";
import type { Backend, SandboxState } from "../ports/backend.ts";
import type { Clock } from "../ports/clock.ts";
import type { ExecJournal } from "../ports/exec-journal.ts";
import type { Log } from "../ports/log.ts";
import type { ExecRow, SessionRow, SessionStore } from "../ports/session-store.ts";
import type { Execs } from "./execs.ts";
import { LiveSession } from "./live-session.ts";
import { isUnreachable } from "./providers.ts";
import type { Providers } from "./providers.ts";
import type { SessionTable } from "./session-table.ts";
import type { EndStatus, Sessions } from "./sessions.ts";

export interface ReconcileParts {
  readonly providers: Providers;
  readonly store: SessionStore;
  readonly journal: ExecJournal;
  readonly clock: Clock;
  readonly log: Log;
  readonly table: SessionTable;
  readonly sessions: Sessions;
  readonly execs: Execs;
}

export interface Reconciled {
  readonly adopted: number;
  readonly ended: number;
  readonly orphans: number;
}

/** A backend with what an earlier daemon left on it. */
interface Inheritance {
  readonly backend: Backend;
  readonly sessions: readonly LiveSession[];
  readonly execs: readonly ExecRow[];
}

export class Reconciliation {
  readonly #parts: ReconcileParts;

  constructor(parts: ReconcileParts) {
    this.#parts = parts;
  }

  /** Once, before anything is asked for. */
  async run(): Promise<Reconciled> {
    const { store, table, providers } = this.#parts;
    const living = (await store.livingSessions()).map((row) => this.#enterTable(row));
    const unfinished = await store.unfinishedExecs();
    const sum = { adopted: 0, ended: 0, orphans: 0 };
    for (const { backend } of providers.all) {
      const sessions = living.filter(({ row }) => row.backend === backend.name);
      const execs = unfinished.filter((exec) => table.get(exec.sessionId)?.backend === backend);
      const done = await this.#takeOverNowOrLater({ backend, sessions, execs });
      for (const key of ["adopted", "ended", "orphans"] as const) sum[key] += done[key];
    }
    for (const exec of unfinished)
      if (table.get(exec.sessionId) === undefined) await this.#endExec(exec);
    await this.#removeOldJournals();
    await store.settle();
    return sum;
  }

  #enterTable(row: SessionRow): LiveSession {
    const session = new LiveSession(row, this.#parts);
    session.made.resolve();
    this.#parts.table.add(session);
    return session;
  }

  /**
   * Of an engine that does not answer nothing is known, so nothing of it is ended. Nothing new is made
   * there either before what is left is taken over: it could not be told from remains.
   */
  async #takeOverNowOrLater(inheritance: Inheritance): Promise<Reconciled> {
    const { backend, sessions } = inheritance;
    const { log, providers } = this.#parts;
    try {
      return await this.#takeOver(inheritance);
    } catch (error) {
      if (!isUnreachable(error)) throw error;
      const name = backend.name;
      log.warn(
        { err: error, backend: name, sessions: sessions.length },
        "a backend cannot be reached; its sessions wait for it",
      );
      providers.holdUntil(backend, async () => {
        const done = await this.#takeOver(inheritance);
        log.info({ backend: name, ...done }, "a backend can be reached again");
      });
      return { adopted: 0, ended: 0, orphans: 0 };
    }
  }

  async #takeOver({ backend, sessions, execs }: Inheritance): Promise<Reconciled> {
    const states = new Map((await backend.list()).map(({ id, state }) => [id, state]));
    this.#refuseForeign(states);
    let adopted = 0;
    for (const session of sessions) {
      const { sandboxId = "" } = session.row;
      if (await this.#adopt(session, states.get(sandboxId))) adopted++;
      states.delete(sandboxId);
    }
    for (const id of states.keys()) await this.#removeOrphan(backend, id);
    for (const exec of execs) await this.#continueExec(exec);
    return { adopted, ended: sessions.length - adopted, orphans: states.size };
  }

  /**
   * SECURITY: an empty store beside living sandboxes is more likely a lost database than a reason to
   * destroy them all (threat 64). Guarded by "refuses to start" in tests/torture/daemon-faults.test.ts.
   */
  #refuseForeign(states: ReadonlyMap<string, SandboxState>): void {
    const living = [...states.values()].filter((state) => state !== "dead");
    if (!this.#parts.store.isNew || living.length === 0) return;
    throw new SandboxError(
      "CONFLICT",
      `the database is new, yet ${living.length} sandboxes of this daemon live; ` +
        "restore the database, or remove the sandboxes with `sandkasten sweep --yes`",
    );
  }

  /** True when the session lives on. */
  async #adopt(session: LiveSession, state: SandboxState | undefined): Promise<boolean> {
    const { row } = session;
    const alive = state === "running" || state === "paused";
    if ((row.status === "running" || row.status === "paused") && alive) {
      if (row.status !== state) await session.save({ status: state });
      return true;
    }
    const [status, reason] = endOf(row);
    try {
      await this.#parts.sessions.end(session, status, reason);
    } catch (error) {
      // It stays in the table as `destroying`, and the reaper tries again.
      this.#parts.log.error({ err: error, session: row.id }, "cannot clean up a session");
    }
    return false;
  }

  async #removeOrphan(backend: Backend, id: string): Promise<void> {
    const { log } = this.#parts;
    try {
      await backend.destroy(id);
      log.info({ sandbox: id }, "removed a sandbox that belongs to no session");
    } catch (error) {
      log.error({ err: error, sandbox: id }, "cannot remove a sandbox that belongs to no session");
    }
  }

  async #continueExec(row: ExecRow): Promise<void> {
    const session = this.#parts.table.get(row.sessionId);
    if (session !== undefined && session.ending === undefined)
      await this.#parts.execs.adopt(session, row);
    else await this.#endExec(row);
  }

  async #endExec(row: ExecRow): Promise<void> {
    const { store, clock } = this.#parts;
    await store.updateExec(row.sessionId, row.id, {
      status: "done",
      endReason: "sandbox_gone",
      endedAtMs: clock.nowMs(),
      durationMs: Math.max(0, clock.nowMs() - row.startedAtMs),
    });
  }

  async #removeOldJournals(): Promise<void> {
    const { store, journal } = this.#parts;
    for (const id of await journal.sessions())
      if ((await store.getSession(id)) === undefined) await journal.remove(id);
  }
}

function endOf({ status }: SessionRow): [EndStatus, string | undefined] {
  if (status === "creating") return ["failed", "the daemon ended while it was made"];
  if (status === "destroying") return ["destroyed", undefined];
  return ["crashed", "its sandbox was gone when the daemon came back"];
}
