/** Brings memory, store and backends together after a start, while requests are served already. */
import type { Backend } from "../ports/backend.ts";
import type { ExecJournal } from "../ports/exec-journal.ts";
import type { ExecRow, SessionRow } from "../ports/session-store.ts";
import { LiveSession } from "./live-session.ts";
import { isUnreachable } from "./providers.ts";
import type { SessionTable } from "./session-table.ts";
import { endExec, listed, refuseForeign, TakeOver } from "./take-over.ts";
import type { Inheritance, Reconciled, TakeOverParts } from "./take-over.ts";

export interface ReconcileParts extends TakeOverParts {
  readonly journal: ExecJournal;
  readonly table: SessionTable;
}

export class Reconciliation {
  readonly #parts: ReconcileParts;

  constructor(parts: ReconcileParts) {
    this.#parts = parts;
  }

  /**
   * Once, before anything is asked for. Afterwards every living session is known, with its key and its
   * share of the quota. Resolves with the work that is left, which may go on beside requests.
   */
  async prepare(): Promise<() => Promise<Reconciled>> {
    const { store, table, providers } = this.#parts;
    if (store.isNew)
      for (const { backend } of providers.all) await this.#refuseLostDatabase(backend);
    const living = (await store.livingSessions()).map((row) => this.#enterTable(row));
    const unfinished = await store.unfinishedExecs();
    const takeOvers = providers.all.map(({ backend }) => {
      const sessions = living.filter(({ row }) => row.backend === backend.name);
      const execs = unfinished.filter((exec) => table.get(exec.sessionId)?.backend === backend);
      return {
        inheritance: { backend, sessions, execs },
        begin: providers.expectTakeOver<Reconciled>(backend),
      };
    });
    await store.settle();
    const ended = unfinished.filter((exec) => table.get(exec.sessionId) === undefined);
    return async () => {
      const done = takeOvers.map(({ inheritance, begin }) =>
        begin(this.#takeOverNowOrLater(inheritance)),
      );
      await this.#tidyBooks(ended);
      return sumOf(await Promise.all(done));
    };
  }

  async #refuseLostDatabase(backend: Backend): Promise<void> {
    try {
      refuseForeign(this.#parts.store, await listed(backend));
    } catch (error) {
      // What is there is looked at again before anything is removed.
      if (!isUnreachable(error)) throw error;
    }
  }

  #enterTable(row: SessionRow): LiveSession {
    const session = new LiveSession(row, this.#parts);
    session.made.resolve();
    this.#parts.table.add(session);
    return session;
  }

  /**
   * Of an engine that does not answer nothing is known, so nothing of it is ended. Nothing new is made
   * there either before what is left is taken over.
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
        log.warn(fields, "a backend cannot be reached; its sessions wait for it");
      else log.error(fields, "cannot take over what an earlier daemon left; its sessions wait");
      providers.holdUntil(backend, async () => {
        const done = await takeOver.run();
        log.info({ backend: backend.name, ...done }, "a backend can be reached again");
      });
      return NOTHING;
    }
  }

  async #tidyBooks(ended: readonly ExecRow[]): Promise<void> {
    const { store, journal, log } = this.#parts;
    try {
      for (const exec of ended) await endExec(exec, this.#parts);
      for (const id of await journal.sessions())
        if ((await store.getSession(id)) === undefined) await journal.remove(id);
    } catch (error) {
      log.error({ err: error }, "cannot remove what belongs to no session any more");
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
