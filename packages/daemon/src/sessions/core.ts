/** The core put together: sessions, commands, workspaces, pool, reaper. */
import type { Clock } from "../ports/clock.ts";
import type { ExecJournal } from "../ports/exec-journal.ts";
import type { ImageStore } from "../ports/image-store.ts";
import type { Log } from "../ports/log.ts";
import type { SessionStore } from "../ports/session-store.ts";
import { Disks } from "./disks.ts";
import { Execs } from "./execs.ts";
import { Pool } from "./pool.ts";
import type { Providers } from "./providers.ts";
import { Reaper } from "./reaper.ts";
import { Reconciliation } from "./reconcile.ts";
import type { Reconciled } from "./reconcile.ts";
import type { ServiceCounts, Services } from "./services.ts";
import { SessionTable } from "./session-table.ts";
import { Sessions } from "./sessions.ts";
import type { SessionSettings } from "./settings.ts";
import { Workspaces } from "./workspaces.ts";

export interface CoreParts {
  readonly providers: Providers;
  readonly store: SessionStore;
  readonly journal: ExecJournal;
  readonly clock: Clock;
  readonly log: Log;
  readonly settings: SessionSettings;
}

export class SessionCore implements Services {
  readonly sessions: Sessions;
  readonly execs: Execs;
  readonly workspaces: Workspaces;
  readonly reaper: Reaper;
  readonly pool: Pool;
  readonly #table = new SessionTable();
  readonly #parts: CoreParts;

  constructor(parts: CoreParts) {
    this.#parts = parts;
    const { settings } = parts;
    this.pool = new Pool(settings.pool, { ...parts, limits: settings.defaultLimits });
    const shared = { ...parts, table: this.#table, pool: this.pool, disks: new Disks(parts) };
    this.sessions = new Sessions(shared);
    this.execs = new Execs({ ...shared, sessions: this.sessions });
    this.workspaces = new Workspaces({ ...shared, sessions: this.sessions });
    this.reaper = new Reaper({ ...shared, sessions: this.sessions, workspaces: this.workspaces });
  }

  /** Adopts what an earlier daemon left; before this nothing may be asked for. */
  async start(): Promise<Reconciled> {
    const done = await new Reconciliation({
      ...this.#parts,
      table: this.#table,
      sessions: this.sessions,
      execs: this.execs,
    }).run();
    await this.reaper.endOver();
    this.pool.refill();
    this.reaper.start();
    return done;
  }

  /** For the store to be closed after. Ends all sessions, or leaves them to the next daemon with their commands running. */
  async stop(sandboxes: "keep" | "destroy"): Promise<void> {
    this.sessions.close();
    await this.reaper.stop();
    await this.pool.stop();
    await this.workspaces.stop();
    for (const session of this.#table.all()) {
      if (sandboxes === "destroy")
        await this.sessions.end(session, "destroyed", "the daemon was stopped");
      else await session.release();
    }
    await this.execs.settled();
  }

  imagesOf(backend?: string): ImageStore {
    return this.#parts.providers.choose(backend).images;
  }

  async reachable(): Promise<boolean> {
    return await this.#parts.providers.default.backend.reachable();
  }

  counts(): ServiceCounts {
    const sessions = this.#table.countsByStatus();
    const runningExecs = this.#table
      .all()
      .reduce((sum, { recordings }) => sum + recordings.size, 0);
    return { sessions, runningExecs, pooled: this.pool.size };
  }
}
