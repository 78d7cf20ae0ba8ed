/** Reconciles memory, store and backends: after a start, and when another daemon died. */
import type { EventHub } from "../events/event-hub.ts";
import type { Backend } from "../ports/backend.ts";
import type { SessionNetworks } from "../network/session-networks.ts";
import type { ExecJournal } from "../ports/exec-journal.ts";
import type { ExecRow, SessionRow } from "../ports/session-store.ts";
import { LiveSession } from "./live-session.ts";
import { OrderedEvents } from "./ordered-events.ts";
import { isUnreachable } from "./providers.ts";
import { recoverEvents } from "./recover-events.ts";
import { isLiving, UNFINISHED } from "./states.ts";
import type { LiveSessions } from "./live-sessions.ts";
import { endExec, listed, refuseForeign, TakeOver } from "./take-over.ts";
import type { Inheritance, Reconciled, TakeOverParts } from "./take-over.ts";

export interface ReconcileParts extends TakeOverParts {
  readonly journal: ExecJournal;
  readonly events: EventHub;
  readonly table: LiveSessions;
  readonly networks: SessionNetworks;
}

export class Reconciliation {
  readonly #parts: ReconcileParts;

  constructor(parts: ReconcileParts) {
    this.#parts = parts;
  }

  /**
   * Call once, before any request. Afterwards every session that this daemon serves is known.
   * Resolves with the remaining work, which may run alongside requests.
   */
  async prepare(): Promise<() => Promise<Reconciled>> {
    const { store, providers } = this.#parts;
    if (store.isNew)
      for (const { backend } of providers.all) await this.#refuseLostDatabase(backend);
    const { inheritances, ended } = await this.#claim(true);
    const takeOvers = inheritances.map((inheritance) => ({
      inheritance,
      begin: providers.expectTakeOver<Reconciled>(inheritance.backend),
    }));
    await store.settle();
    return async () => {
      const done = takeOvers.map(({ inheritance, begin }) =>
        begin(this.#takeOverNowOrLater(inheritance)),
      );
      await this.#endExecs(ended);
      await this.#tidyJournal();
      return sumOf(await Promise.all(done));
    };
  }

  /**
   * Takes over what other daemons left when they died, if any did: resolves when this daemon serves
   * their sessions, with the checks of their sandboxes, which may take long.
   */
  async claim(): Promise<{ readonly takenOver: Promise<Reconciled> }> {
    const { inheritances, ended } = await this.#claim(false);
    const left = inheritances.filter(({ sessions }) => sessions.length > 0);
    const takeOvers = left.map((one) => this.#takeOverNowOrLater(one));
    const takenOver = this.#endExecs(ended).then(async () => sumOf(await Promise.all(takeOvers)));
    return { takenOver };
  }

  /** From here on this daemon handles requests for these sessions; they wait until each session is checked. */
  async #claim(atStart: boolean): Promise<{
    readonly inheritances: readonly Inheritance[];
    /** Unfinished commands of ended sessions. */
    readonly ended: readonly ExecRow[];
  }> {
    const { store, table, providers, membership } = this.#parts;
    const { fence } = membership;
    const { sessions: claimed, sandboxFence } = await store.claim(fence, providers.places);
    const living = claimed
      .filter(({ status }) => isLiving(status))
      .map((row) => this.#inherit(row, sandboxFence));
    const ids = new Set(claimed.map(({ id }) => id));
    const unfinished = claimed.length === 0 ? [] : await store.unfinishedExecs(fence);
    const inherited = unfinished.filter(({ sessionId }) => ids.has(sessionId));
    await recoverEvents({ claimed, living, unfinished: inherited }, this.#parts);
    for (const session of living) table.add(session);
    const inheritances = providers.all.map(({ backend }) => ({
      backend,
      sessions: living.filter(({ row }) => row.backend === backend.name),
      execs: inherited.filter((exec) => table.get(exec.sessionId)?.backend === backend),
      atStart,
    }));
    const ended = inherited.filter((exec) => table.get(exec.sessionId) === undefined);
    return { inheritances, ended };
  }

  async #refuseLostDatabase(backend: Backend): Promise<void> {
    try {
      refuseForeign(this.#parts.store, await listed(backend));
    } catch (error) {
      // The sandboxes are listed again before anything is removed.
      if (!isUnreachable(error)) throw error;
    }
  }

  #inherit(row: SessionRow, sandboxFence: number | undefined): LiveSession {
    const session = new LiveSession(row, this.#parts, sandboxFence);
    session.made.resolve();
    if (row.status === "creating") session.unmade = UNFINISHED;
    return session;
  }

  /**
   * If an engine does not respond, its sandboxes are in an unknown state, so nothing is ended.
   * Nothing new is created there either until what is left is taken over.
   */
  async #takeOverNowOrLater(inheritance: Inheritance): Promise<Reconciled> {
    const { log, providers } = this.#parts;
    const { backend, sessions } = inheritance;
    const takeOver = new TakeOver(inheritance, this.#parts);
    try {
      return await takeOver.run();
    } catch (error) {
      const fields = { err: error, backend: backend.name, sessions: sessions.length };
      if (isUnreachable(error))
        log.warn(fields, "a backend is not reachable; its sessions wait for it");
      else
        log.error(fields, "cannot take over the sandboxes of an earlier daemon; its sessions wait");
      providers.holdUntil(backend, async () => {
        const done = await takeOver.run();
        log.info({ backend: backend.name, ...done }, "a backend is reachable again");
      });
      return NOTHING;
    }
  }

  async #endExecs(ended: readonly ExecRow[]): Promise<void> {
    try {
      const { events } = this.#parts;
      await Promise.all(
        ended.map((exec) => endExec(exec, new OrderedEvents(events).reserve(), this.#parts)),
      );
    } catch (error) {
      this.#parts.log.error({ err: error }, "cannot end commands of sessions that have ended");
    }
  }

  async #tidyJournal(): Promise<void> {
    const { store, journal, log } = this.#parts;
    try {
      for (const id of await journal.sessions())
        if ((await store.getSession(id)) === undefined) await journal.remove(id);
    } catch (error) {
      log.error({ err: error }, "cannot remove orphaned sandboxes");
    }
  }
}

const NOTHING: Reconciled = { adopted: 0, ended: 0, orphans: 0 };

function sumOf(all: readonly Reconciled[]): Reconciled {
  return all.reduce(
    (sum, { adopted, ended, orphans }) => ({
      adopted: sum.adopted + adopted,
      ended: sum.ended + ended,
      orphans: sum.orphans + orphans,
    }),
    NOTHING,
  );
}
