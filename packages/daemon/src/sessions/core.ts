/** Assembles the core: sessions, commands, workspaces, pool, reaper. */
import { SandboxError } from "@sandkasten/protocol";
import type { EventHub } from "../events/event-hub.ts";
import { CallersEvents } from "../events/callers-events.ts";
import type { SessionNetworks } from "../network/session-networks.ts";
import type { StorageUse } from "../ports/backend.ts";
import type { Clock } from "../ports/clock.ts";
import type { ExecJournal } from "../ports/exec-journal.ts";
import type { Images, ImageUsage } from "../ports/image-store.ts";
import type { Log } from "../ports/log.ts";
import { isLostOwnership } from "../ports/lost-ownership.ts";
import type { SessionStore } from "../ports/session-store.ts";
import type { Telemetry } from "../ports/telemetry.ts";
import { CreateQueue } from "./create-queue.ts";
import { Disks } from "./disks.ts";
import { Execs } from "./execs.ts";
import { recordingImages, recordCollected } from "./image-events.ts";
import { FileEvents } from "./file-events.ts";
import { Commits } from "./commits.ts";
import { Files } from "./files.ts";
import { JournalPruner } from "./journal-pruner.ts";
import { Networks } from "./networks.ts";
import { Pool } from "./pool.ts";
import { Ports } from "./ports.ts";
import { imagesFor } from "./providers.ts";
import type { Providers } from "./providers.ts";
import { Reaper } from "./reaper.ts";
import { Reconciliation } from "./reconcile.ts";
import type { Caller } from "./services/caller.ts";
import type { EventService } from "./services/event-service.ts";
import type { FileWrite } from "./services/file-service.ts";
import type { ServiceCounts, Services } from "./services/services.ts";
import type { Reconciled } from "./take-over.ts";
import type { LiveSession } from "./live-session.ts";
import { LiveSessions } from "./live-sessions.ts";
import { Membership } from "./membership.ts";
import { Sessions } from "./sessions.ts";
import { isLiving } from "./states.ts";
import type { SessionSettings } from "./settings.ts";
import { Shells } from "./shells.ts";
import { Workspaces } from "./workspaces.ts";

export interface CoreParts {
  readonly providers: Providers;
  readonly store: SessionStore;
  readonly journal: ExecJournal;
  readonly clock: Clock;
  readonly log: Log;
  readonly settings: SessionSettings;
  readonly events: EventHub;
  readonly networks: SessionNetworks;
  readonly telemetry: Telemetry;
  /** Called for every file change by a caller. */
  readonly onFileWrite?: ((write: FileWrite) => void) | undefined;
  /** Where other daemons on the same store reach this one. */
  readonly address?: string;
}

export class SessionCore implements Services {
  readonly events: EventService;
  readonly sessions: Sessions;
  readonly execs: Execs;
  readonly shells: Shells;
  readonly commits: Commits;
  readonly files: Files;
  readonly workspaces: Workspaces;
  readonly ports: Ports;
  readonly networks: Networks;
  readonly reaper: Reaper;
  readonly pool: Pool;
  readonly #table = new LiveSessions();
  readonly membership: Membership;
  readonly #reconciliation: Reconciliation;
  readonly #stopping = new AbortController();
  readonly #pruner: JournalPruner;
  readonly #fileEvents: FileEvents;
  /** In progress: at the start, and of daemons that died since. */
  readonly #takeOvers = new Set<Promise<unknown>>();
  readonly #parts: CoreParts;
  readonly #queue: CreateQueue;

  constructor(parts: CoreParts) {
    this.#parts = parts;
    const { settings } = parts;
    this.#queue = new CreateQueue(settings.concurrentCreates);
    const queue = this.#queue;
    const membership = new Membership(parts);
    this.membership = membership;
    this.pool = new Pool(settings.pool, {
      ...parts,
      membership,
      queue,
      limits: settings.defaultLimits,
    });
    this.#fileEvents = new FileEvents(parts.events);
    const shared = {
      ...parts,
      fileEvents: this.#fileEvents,
      membership,
      table: this.#table,
      pool: this.pool,
      queue,
      disks: new Disks({ ...parts, membership }),
    };
    this.sessions = new Sessions(shared);
    this.events = new CallersEvents(parts.events, this.sessions, () => this.execs.endsWritten());
    this.execs = new Execs({ ...shared, sessions: this.sessions });
    this.shells = new Shells(this.sessions);
    this.workspaces = new Workspaces({ ...shared, sessions: this.sessions });
    this.files = new Files({
      sessions: this.sessions,
      workspaces: this.workspaces,
      onFileWrite: (write) => {
        this.#fileEvents.note(write);
        parts.onFileWrite?.(write);
      },
    });
    this.commits = new Commits({
      sessions: this.sessions,
      imagesOf: (caller, backend) => this.imagesOf(caller, backend),
    });
    this.ports = new Ports({ settings, sessions: this.sessions });
    this.networks = new Networks({ ...parts, sessions: this.sessions });
    this.#pruner = new JournalPruner(shared);
    this.reaper = new Reaper({
      ...shared,
      sessions: this.sessions,
      workspaces: this.workspaces,
      pruner: this.#pruner,
    });
    this.#reconciliation = new Reconciliation({
      ...shared,
      sessions: this.sessions,
      execs: this.execs,
      stopping: this.#stopping.signal,
    });
  }

  /**
   * Must be called first. Resolves when all sessions are known; what an earlier daemon left is
   * taken over in the background, and a request for one of its sessions waits for that session.
   */
  async start(): Promise<{ readonly takenOver: Promise<Reconciled> }> {
    await this.membership.join();
    const takeOver = await this.#reconciliation.prepare();
    const takenOver = takeOver().then(async (done) => {
      await this.reaper.endOver();
      this.reaper.start();
      return done;
    });
    this.#track(takenOver);
    this.membership.start({ onBeat: () => this.#claim(), onLost: () => this.#startAnew() });
    this.#parts.providers.default.images.onChange(() => this.pool.refill());
    this.pool.refill();
    return { takenOver };
  }

  #track(takeOver: Promise<unknown>): void {
    const settled = takeOver
      .catch(() => undefined)
      .finally(() => {
        this.#takeOvers.delete(settled);
      });
    this.#takeOvers.add(settled);
  }

  /** Takes over the sessions of daemons that died. Their sandboxes are checked in the background. */
  async #claim(): Promise<void> {
    const { store, log } = this.#parts;
    if (store.heartbeat.deadAfterMs === undefined || this.#stopping.signal.aborted) return;
    const { takenOver } = await this.#reconciliation.claim();
    this.#track(
      takenOver.then(({ adopted, ended, orphans }) => {
        if (adopted + ended > 0)
          log.info({ adopted, ended, orphans }, "took over the sessions of another daemon");
      }),
    );
  }

  /** The others declared this daemon dead: it forgets everything it served, and joins again. */
  async #startAnew(): Promise<void> {
    const lost = this.#table.all();
    for (const session of lost) this.#table.remove(session);
    await Promise.all(lost.map((session) => session.lose()));
    await this.membership.join();
    // Engines can be slow, and the next heartbeat waits for this.
    this.#track(Promise.all([this.pool.lose(), this.workspaces.lose()]));
  }

  /**
   * Call before closing the store. Ends all sessions, or leaves them running, with their commands,
   * for the next daemon.
   */
  async stop(sandboxes: "keep" | "destroy"): Promise<void> {
    this.sessions.close();
    this.#stopping.abort();
    await Promise.all(this.#takeOvers);
    await this.reaper.stop();
    await this.pool.stop();
    await this.workspaces.stop();
    for (const session of this.#table.all()) {
      if (sandboxes === "keep") await session.release();
      else await this.#endAtStop(session);
    }
    await this.execs.settled();
    this.#fileEvents.flush();
    await this.#parts.networks.log.flush();
    // The next daemon that serves these sessions must find their events.
    await this.#parts.events.flush();
    await this.membership.leave();
  }

  async #endAtStop(session: LiveSession): Promise<void> {
    try {
      await this.sessions.end(session, "destroyed", "the daemon was stopped");
    } catch (error) {
      if (!isLostOwnership(error)) throw error;
      await session.lose();
    }
  }

  servedAt(sessionId: string): Promise<string | undefined> | undefined {
    const { store } = this.#parts;
    if (store.heartbeat.deadAfterMs === undefined) return undefined;
    const unsure = this.membership.certain();
    if (unsure === undefined && this.#table.get(sessionId) !== undefined) return undefined;
    return this.#servedAt(sessionId, unsure);
  }

  async #servedAt(
    sessionId: string,
    unsure: Promise<void> | undefined,
  ): Promise<string | undefined> {
    const { store, providers } = this.#parts;
    await unsure;
    if (this.#table.get(sessionId) !== undefined) return undefined;
    const row = await store.getSession(sessionId);
    if (row === undefined || !isLiving(row.status)) return undefined;
    const daemon = await store.livingDaemon(row.fence);
    if (daemon?.fence === this.membership.fence) return undefined;
    if (daemon !== undefined) return daemon.address;
    if (providers.places.includes(row.place)) await this.membership.beat();
    return undefined;
  }

  imagesOf(caller: Caller, backend?: string): Images {
    const { images, backend: chosen } = this.#parts.providers.choose(backend);
    return recordingImages(imagesFor(caller, images), {
      owner: caller.owner,
      backend: chosen.name,
      events: this.#parts.events,
    });
  }

  async collectImages(
    { isAdmin }: Caller,
    backend?: string,
  ): Promise<{ readonly removed: number; readonly freedBytes: number }> {
    // SECURITY: the response reveals images of all owners. Guarded by image-owners.test.ts.
    if (!isAdmin)
      throw new SandboxError(
        "PERMISSION_DENIED",
        "Only an administrator's key can collect images. The daemon also does it automatically from time to time.",
      );
    const { images, backend: chosen } = this.#parts.providers.choose(backend);
    const collected = await images.collectGarbage(await this.sessions.imagesInUse());
    recordCollected(this.#parts.events, chosen.name, collected);
    return collected;
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
      .flatMap(({ recordings }) => [...recordings])
      .filter(({ row }) => row.status !== "done").length;
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
      egress: this.#parts.networks.counts(),
    };
  }
}
