/** The core put together: sessions, commands, workspaces, pool, reaper. */
import { SandboxError } from "@sandkasten/protocol";
import type { StorageUse } from "../ports/backend.ts";
import type { Clock } from "../ports/clock.ts";
import type { ExecJournal } from "../ports/exec-journal.ts";
import type { Images, ImageUsage } from "../ports/image-store.ts";
import type { Log } from "../ports/log.ts";
import type { SessionStore } from "../ports/session-store.ts";
import { CreateQueue } from "./create-queue.ts";
import { Disks } from "./disks.ts";
import { Execs } from "./execs.ts";
import { JournalPruner } from "./journal-pruner.ts";
import { Pool } from "./pool.ts";
import { Ports } from "./ports.ts";
import { imagesFor } from "./providers.ts";
import type { Providers } from "./providers.ts";
import { Reaper } from "./reaper.ts";
import { Reconciliation } from "./reconcile.ts";
import type { Caller, ServiceCounts, Services } from "./services.ts";
import type { Reconciled } from "./take-over.ts";
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
  readonly ports: Ports;
  readonly reaper: Reaper;
  readonly pool: Pool;
  readonly #table = new SessionTable();
  readonly #stopping = new AbortController();
  readonly #pruner: JournalPruner;
  #takenOver: Promise<unknown> = Promise.resolve();
  readonly #parts: CoreParts;
  readonly #queue: CreateQueue;

  constructor(parts: CoreParts) {
    this.#parts = parts;
    const { settings } = parts;
    this.#queue = new CreateQueue(settings.concurrentCreates);
    const queue = this.#queue;
    this.pool = new Pool(settings.pool, { ...parts, queue, limits: settings.defaultLimits });
    const shared = {
      ...parts,
      table: this.#table,
      pool: this.pool,
      queue,
      disks: new Disks(parts),
    };
    this.sessions = new Sessions(shared);
    this.execs = new Execs({ ...shared, sessions: this.sessions });
    this.workspaces = new Workspaces({ ...shared, sessions: this.sessions });
    this.ports = new Ports({ settings, sessions: this.sessions });
    this.#pruner = new JournalPruner(shared);
    this.reaper = new Reaper({
      ...shared,
      sessions: this.sessions,
      workspaces: this.workspaces,
      pruner: this.#pruner,
    });
  }

  /**
   * Before this nothing may be asked for. Resolves when all sessions are known; what an earlier daemon
   * left is taken over in the background, and a request for one of its sessions waits for that one.
   */
  async start(): Promise<{ readonly takenOver: Promise<Reconciled> }> {
    const takeOver = await new Reconciliation({
      ...this.#parts,
      table: this.#table,
      sessions: this.sessions,
      execs: this.execs,
      stopping: this.#stopping.signal,
    }).prepare();
    const takenOver = takeOver().then(async (done) => {
      await this.reaper.endOver();
      this.reaper.start();
      return done;
    });
    this.#takenOver = takenOver.catch(() => undefined);
    this.#parts.providers.default.images.onChange(() => this.pool.refill());
    this.pool.refill();
    return { takenOver };
  }

  /** For the store to be closed after. Ends all sessions, or leaves them to the next daemon with their commands running. */
  async stop(sandboxes: "keep" | "destroy"): Promise<void> {
    this.sessions.close();
    this.#stopping.abort();
    await this.#takenOver;
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

  imagesOf(caller: Caller, backend?: string): Images {
    return imagesFor(caller, this.#parts.providers.choose(backend).images);
  }

  async collectImages(
    { isAdmin }: Caller,
    backend?: string,
  ): Promise<{ readonly removed: number; readonly freedBytes: number }> {
    // SECURITY: the answer tells about the images of all owners. Guarded by image-owners.test.ts.
    if (!isAdmin)
      throw new SandboxError(
        "PERMISSION_DENIED",
        "Only an administrator's key can collect images. The daemon does it by itself from time to time.",
      );
    const { images } = this.#parts.providers.choose(backend);
    return await images.collectGarbage(this.sessions.imagesInUse());
  }

  async ready(): Promise<"ready" | "unreachable" | "busy"> {
    const { backend } = this.#parts.providers.default;
    if (!(await backend.reachable())) return "unreachable";
    return (await backend.ready()) ? "ready" : "busy";
  }

  async storage(): Promise<readonly StorageUse[]> {
    const { all } = this.#parts.providers;
    return (await Promise.all(all.map(({ backend }) => backend.storage()))).flat();
  }

  counts(): ServiceCounts {
    const sessions = this.#table.countsByStatus();
    const runningExecs = this.#table
      .all()
      .reduce((sum, { recordings }) => sum + recordings.size, 0);
    const images = new Map<string, ImageUsage>();
    for (const { backend, images: store } of this.#parts.providers.all) {
      const usage = store.usage();
      if (usage !== undefined) images.set(backend.name, usage);
    }
    return {
      sessions,
      runningExecs,
      pooled: this.pool.size,
      journal: this.#pruner.usage,
      images,
      waitingCreates: this.#queue.length,
    };
  }
}
