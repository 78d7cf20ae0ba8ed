/** Every half a minute: ends expired sessions, retries failed work, and cleans up. */
import type { Events } from "../events/recorder.ts";
import type { SessionNetworks } from "../network/session-networks.ts";
import type { Backend } from "../ports/backend.ts";
import type { Clock } from "../ports/clock.ts";
import type { ExecJournal } from "../ports/exec-journal.ts";
import type { Log } from "../ports/log.ts";
import type { SessionStore } from "../ports/session-store.ts";
import { aFewAtOnce } from "./a-few-at-once.ts";
import { sandboxIdOf } from "./ids.ts";
import { recordCollected } from "./image-events.ts";
import { LEASE_ENDED } from "./lease.ts";
import type { LiveSession } from "./live-session.ts";
import type { JournalPruner } from "./journal-pruner.ts";
import { orphansAmong, removeOrphan } from "./orphans.ts";
import type { Pool } from "./pool.ts";
import { isUnreachable } from "./providers.ts";
import type { Providers } from "./providers.ts";
import type { LiveSessions } from "./live-sessions.ts";
import type { Sessions } from "./sessions.ts";
import type { SessionSettings } from "./settings.ts";
import type { Workspaces } from "./workspaces.ts";

const REAPER_INTERVAL_MS = 30_000;
const COLLECT_INTERVAL_MS = 10 * 60_000;

export interface ReaperParts {
  readonly providers: Providers;
  readonly store: SessionStore;
  readonly journal: ExecJournal;
  readonly clock: Clock;
  readonly log: Log;
  readonly events: Events;
  readonly table: LiveSessions;
  readonly sessions: Sessions;
  readonly workspaces: Workspaces;
  readonly pool: Pool;
  readonly pruner: JournalPruner;
  readonly settings: SessionSettings;
  readonly networks: SessionNetworks;
}

export class Reaper {
  readonly #parts: ReaperParts;
  #timer: NodeJS.Timeout | undefined;
  #tick: Promise<void> | undefined;
  #collectedMs: number;

  constructor(parts: ReaperParts) {
    this.#parts = parts;
    this.#collectedMs = parts.clock.monotonicMs();
  }

  start(): void {
    this.#timer = setInterval(() => void this.tick(), REAPER_INTERVAL_MS);
    this.#timer.unref();
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.#tick;
  }

  /** Runs one round; a slow round is not overtaken by the next. */
  async tick(): Promise<void> {
    this.#tick ??= this.#round().finally(() => {
      this.#tick = undefined;
    });
    await this.#tick;
  }

  async #round(): Promise<void> {
    const { pool, providers, sessions, workspaces } = this.#parts;
    await this.endOver();
    await this.#attempt("ending sessions that the store did not confirm", () => sessions.tidy());
    for (const { backend } of providers.all)
      await this.#attempt(`checking the sandboxes of ${backend.name}`, () =>
        this.#lookAtSandboxes(backend),
      );
    await this.#attempt("tidying workspaces", () => workspaces.tidy());
    await this.#attempt("forgetting old sessions", () => this.#forget());
    await this.#attempt("pruning output", () => this.#parts.pruner.prune());
    await this.#attempt("collecting images", () => this.#collectImages());
    await this.#attempt("maintaining the pool", () => pool.tend());
  }

  /** Ends every expired session, and retries those that could not be ended. */
  async endOver(): Promise<void> {
    const left = [...this.#parts.table.all()];
    await aFewAtOnce(
      () => left.pop(),
      (session) =>
        this.#attempt(`ending session ${session.row.id}`, () => this.#endIfOver(session)),
    );
  }

  async #endIfOver(session: LiveSession): Promise<void> {
    const { sessions } = this.#parts;
    if (session.row.status === "destroying" && session.ending === undefined) {
      const { status, reason } = session.endsAs ?? { status: "destroyed", reason: undefined };
      await sessions.end(session, status, reason ?? session.row.endReason);
    } else if (session.row.status === "creating" && session.unmade !== undefined) {
      // An earlier daemon's is ended when its backend has been asked about it.
      if (session.adoption === undefined) await sessions.end(session, "failed", session.unmade);
    } else if (
      session.row.status !== "creating" &&
      session.ending === undefined &&
      session.isOver
    ) {
      await sessions.end(session, "expired", LEASE_ENDED);
    }
  }

  /** Ends sessions whose sandbox is dead, and removes sandboxes without a session. */
  async #lookAtSandboxes(backend: Backend): Promise<void> {
    const { providers, table, sessions, log } = this.#parts;
    await providers.ready(backend);
    const states = new Map((await backend.list()).map(({ id, state }) => [id, state]));
    for (const session of table.all()) {
      const { status } = session.row;
      if (session.backend !== backend || (status !== "running" && status !== "paused")) continue;
      const state = states.get(sandboxIdOf(session.row));
      if (state === undefined || state === "dead") await sessions.lookAfter(session);
    }
    // An engine completes requests of a daemon that was killed meanwhile.
    for (const id of await orphansAmong(backend, states.keys(), this.#parts))
      await removeOrphan(backend, id, log);
  }

  async #collectImages(): Promise<void> {
    const { clock, events, providers, sessions } = this.#parts;
    if (clock.monotonicMs() - this.#collectedMs < COLLECT_INTERVAL_MS) return;
    this.#collectedMs = clock.monotonicMs();
    for (const { images, backend } of providers.all) {
      const collected = await images.collectGarbage(await sessions.imagesInUse());
      recordCollected(events, backend.name, collected);
    }
  }

  async #forget(): Promise<void> {
    const { store, journal, clock, settings, networks } = this.#parts;
    const forgotten = await store.forgetSessionsEndedBefore(clock.nowMs() - settings.retentionMs);
    for (const id of forgotten) {
      await journal.remove(id);
      await networks.log.forget(id);
    }
  }

  async #attempt(what: string, work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      const { log } = this.#parts;
      if (isUnreachable(error)) log.warn({ err: error }, `the reaper postponed ${what}`);
      else log.error({ err: error }, `the reaper failed at ${what} and will retry`);
    }
  }
}
