/** Sessions: made, found, used, paused, renewed and ended. */
import { SandboxError } from "@sandkasten/protocol";
import type { SessionStatus } from "@sandkasten/protocol";
import type { Backend, IsolationReport, SandboxStats } from "../ports/backend.ts";
import type { Log } from "../ports/log.ts";
import type { Page, SessionRow, SessionStore } from "../ports/session-store.ts";
import { viewOf } from "./lease.ts";
import { LiveSession, sandboxOf } from "./live-session.ts";
import { isUnreachable } from "./providers.ts";
import type { Provider } from "./providers.ts";
import type {
  Caller,
  CreateSessionOptions,
  SessionQuery,
  SessionService,
  SessionView,
  Visit,
} from "./services.ts";
import { SessionMaker } from "./session-maker.ts";
import type { SessionMakerParts } from "./session-maker.ts";
import { planSession } from "./session-plan.ts";
import type { SessionPlan } from "./session-plan.ts";
import type { SessionTable } from "./session-table.ts";
import { checkTransition, isUp, unusable } from "./states.ts";

/** Sessions in a list whose request does not say how many. */
const DEFAULT_PAGE_SIZE = 100;

export interface SessionsParts extends SessionMakerParts {
  readonly store: SessionStore;
  readonly log: Log;
  readonly table: SessionTable;
}

type Owner = Pick<Caller, "owner">;

/** How a session may end. */
export type EndStatus = Extract<SessionStatus, "destroyed" | "expired" | "crashed" | "failed">;

export class Sessions implements SessionService {
  readonly #parts: SessionsParts;
  readonly #maker: SessionMaker;
  #closed = false;

  constructor(parts: SessionsParts) {
    this.#parts = parts;
    this.#maker = new SessionMaker(parts);
  }

  async create(
    caller: Caller,
    options: CreateSessionOptions,
  ): Promise<{ readonly session: SessionView; readonly created: boolean }> {
    const { settings, providers, store, table, clock } = this.#parts;
    if (this.#closed)
      throw new SandboxError(
        "SANDBOX_UNREACHABLE",
        "the daemon is stopping; try again in a moment",
      );
    const provider = providers.choose(options.backend);
    await providers.ready(provider.backend);
    const plan = await planSession(caller, options, settings, provider);
    const existing = await this.#ofKey(caller, options.key);
    if (existing !== undefined) return await this.#existing(existing, plan, options);
    const row = this.#maker.newRow(caller, options, plan, provider);
    const session = new LiveSession(row, this.#parts);
    if (table.countOf(caller.owner) >= caller.maxSessions) throw tooMany(caller);
    // Counted before the first wait, so that no number of requests at once gets past the quota.
    table.add(session);
    try {
      // The intent is written down before anything is made: whatever happens, it can be cleaned up.
      const written = await store.insertSession(row);
      if (!written.inserted) {
        table.remove(session);
        return await this.#existing(written.existing, plan, options);
      }
    } catch (error) {
      table.remove(session);
      throw error;
    }
    await this.#make(caller, session, plan, provider);
    return { session: viewOf(clock, session.shown), created: true };
  }

  async get(caller: Caller, id: string): Promise<SessionView> {
    await this.settled(id);
    const row = await this.#row(caller, id);
    const [view] = await this.#views([row]);
    if (view === undefined) throw new Error("one row has one view");
    return view;
  }

  async list(caller: Caller, query: SessionQuery): Promise<Page<SessionView>> {
    const { owner } = caller;
    const { rows, ...rest } = await this.#parts.store.listSessions({
      // Whoever knows no pages shall see all that live.
      limit: Math.max(DEFAULT_PAGE_SIZE, this.#parts.table.livingOf(owner)),
      ...query,
      owner,
    });
    const views = await this.#views(rows);
    // One whose lease is over is written down as expired a little later.
    return { rows: views.filter((view) => !isOverdue(view, query.status)), ...rest };
  }

  /** As they are now, which is not known of those whose backend does not answer. */
  async #views(rows: readonly SessionRow[]): Promise<readonly SessionView[]> {
    const { table, clock, providers } = this.#parts;
    await Promise.all(rows.map(({ id }) => this.settled(id)));
    const shown = rows.map((row) => table.get(row.id)?.shown ?? row);
    const unreachable = new Set<string>();
    for (const name of new Set(
      shown.filter(({ status }) => isUp(status)).map((row) => row.backend),
    ))
      if (!(await providers.backendOf(name).reachable())) unreachable.add(name);
    return shown.map((row) => {
      const view = viewOf(clock, row);
      if (isUp(row.status) && table.get(row.id)?.isOver === true)
        return { ...view, status: "expired" as const };
      return isUp(row.status) && unreachable.has(row.backend)
        ? { ...view, status: "unreachable" as const }
        : view;
    });
  }

  async destroy(caller: Caller, id: string): Promise<void> {
    const session = this.#parts.table.get(id);
    if (session?.row.owner === caller.owner) {
      await this.settled(id);
      await this.end(session, "destroyed");
    } else await this.#row(caller, id); // 404 when there never was one; done already otherwise.
  }

  async pause(caller: Caller, id: string): Promise<SessionView> {
    return await this.#change(caller, id, "paused", (backend, sandbox) => backend.pause(sandbox));
  }

  async resume(caller: Caller, id: string): Promise<SessionView> {
    return await this.#change(caller, id, "running", (backend, sandbox) => backend.resume(sandbox));
  }

  async renew(caller: Caller, id: string, ttlMs?: number): Promise<SessionView> {
    const session = await this.#living(caller, id, ["running", "paused"]);
    await session.renew(ttlMs);
    return viewOf(this.#parts.clock, session.row);
  }

  async stats(caller: Caller, id: string): Promise<SandboxStats> {
    const session = await this.#living(caller, id, ["running", "paused"]);
    return await session.backend.stats(sandboxOf(session));
  }

  async isolation(caller: Caller, id: string): Promise<IsolationReport> {
    const session = await this.enterLive(caller, id);
    try {
      return await session.backend.isolation(sandboxOf(session));
    } finally {
      await session.leave();
    }
  }

  async enter(caller: Owner, id: string): Promise<Visit> {
    const session = await this.enterLive(caller, id);
    try {
      return this.visit(session, await session.channel());
    } catch (error) {
      await session.leave();
      await this.lookAfter(session);
      throw error;
    }
  }

  /** As its owner, whoever that is; the link has been checked. */
  async enterByLink(id: string): Promise<Visit> {
    const row = this.#parts.table.get(id)?.row ?? (await this.#parts.store.getSession(id));
    return await this.enter({ owner: row?.owner ?? "" }, id);
  }

  /** Digests of the images that sandboxes, also those that are being made, and the pool use. */
  imagesInUse(): ReadonlySet<string> {
    const { table, pool } = this.#parts;
    const used = table
      .all()
      .flatMap(({ row, makingDigest }) => row.imageDigest ?? makingDigest ?? []);
    return new Set([...used, ...pool.digests()]);
  }

  /** The daemon stops: no new sessions. */
  close(): void {
    this.#closed = true;
  }

  /** Waits until it is known what became of a session since an earlier daemon, if that can be known now. */
  async settled(id: string): Promise<void> {
    try {
      await this.#parts.table.get(id)?.adoption?.();
    } catch (error) {
      if (!isUnreachable(error)) throw error;
    }
  }

  /** A running session with its lease renewed, to be left again. */
  async enterLive(caller: Owner, id: string): Promise<LiveSession> {
    for (;;) {
      const session = await this.#living(caller, id, ["running"]);
      await this.#parts.providers.ready(session.backend);
      // Looked at and entered without a wait in between, so that the reaper cannot come between them.
      if (session.isUsable) {
        await session.enter();
        return session;
      }
    }
  }

  /** A session's own stay, also for workspaces. */
  visit(session: LiveSession, channel: Visit["channel"]): Visit {
    let left = false;
    return {
      channel,
      [Symbol.dispose]: () => {
        if (left) return;
        left = true;
        session.leave().catch((error: unknown) => {
          this.#parts.log.error({ err: error, session: session.row.id }, "cannot renew a lease");
        });
      },
    };
  }

  /** Ends a session, once; whoever asks again waits for the same end. */
  async end(session: LiveSession, status: EndStatus, reason?: string): Promise<void> {
    session.ending ??= this.#end(session, status, reason).catch((error: unknown) => {
      // Nothing is forgotten: the reaper tries again.
      session.ending = undefined;
      throw error;
    });
    await session.ending;
  }

  /** Something went wrong in there: when the sandbox is dead, the session has crashed. */
  async lookAfter(session: LiveSession): Promise<void> {
    const { log } = this.#parts;
    if (session.ending !== undefined || session.row.status === "creating") return;
    try {
      await session.backend.adopt(sandboxOf(session));
    } catch (error) {
      if (!isDeath(error) || session.ending !== undefined) return;
      const reason = outOfMemory(error) ? "its sandbox ran out of memory" : "its sandbox died";
      log.warn({ session: session.row.id, reason }, "a sandbox died");
      await this.end(session, "crashed", reason).catch((failure: unknown) => {
        log.error({ err: failure, session: session.row.id }, "cannot clean up a dead sandbox");
      });
    }
  }

  async #make(
    caller: Caller,
    session: LiveSession,
    plan: SessionPlan,
    provider: Provider,
  ): Promise<void> {
    try {
      const handle = await this.#maker.acquire(caller, session, plan, provider);
      await session.save({ status: "running", imageDigest: handle.imageDigest });
      session.made.resolve();
    } catch (error) {
      const failure = this.#whyNotMade(session, error);
      session.made.reject(failure);
      if (!session.creation.signal.aborted) await this.#endFailed(session, failure);
      throw failure;
    }
  }

  #whyNotMade({ creation, row }: LiveSession, error: unknown): Error {
    if (creation.signal.aborted)
      return new SandboxError("CONFLICT", `the session ${row.id} was destroyed while it was made`);
    return error instanceof Error ? error : new Error(String(error));
  }

  /** The caller hears why it could not be made, also when cleaning up fails too. */
  async #endFailed(session: LiveSession, error: unknown): Promise<void> {
    await this.end(session, "failed", failureText(error)).catch((failure: unknown) => {
      this.#parts.log.error({ err: failure, session: session.row.id }, "cannot clean up a session");
    });
  }

  /** The session of a key that can still be used. */
  async #ofKey(caller: Caller, key: string | undefined): Promise<SessionRow | undefined> {
    if (key === undefined) return undefined;
    const row = await this.#parts.store.findByKey(caller.owner, key);
    const session = row && this.#parts.table.get(row.id);
    if (session === undefined) return undefined;
    await this.settled(session.row.id);
    if (session.row.status === "destroying") return undefined;
    if (session.row.status !== "creating" && session.isOver)
      await this.end(session, "expired", "its lease ended");
    if (session.ending === undefined) return session.row;
    // Whether or not that works now, it is in nobody's way.
    await session.ending.catch(() => undefined);
    return undefined;
  }

  async #existing(
    row: SessionRow,
    plan: SessionPlan,
    options: CreateSessionOptions,
  ): Promise<{ readonly session: SessionView; readonly created: boolean }> {
    const repeated =
      options.idempotencyKey !== undefined && row.idempotencyKey === options.idempotencyKey;
    if (repeated && row.requestHash !== plan.requestHash)
      throw new SandboxError(
        "CONFLICT",
        "this idempotency key was used for another session; use a new key for every new session",
        { details: { session_id: row.id } },
      );
    if (!repeated && options.image !== undefined && row.image !== plan.image)
      throw new SandboxError(
        "CONFLICT",
        `the session of the key ${row.key} has the image ${row.image}, not ${plan.image}; use another key`,
        { details: { session_id: row.id, image: row.image } },
      );
    if (!repeated && options.backend !== undefined && row.backend !== options.backend)
      throw new SandboxError(
        "CONFLICT",
        `the session of the key ${row.key} is on the backend ${row.backend}, not ${options.backend}; use another key`,
        { details: { session_id: row.id, backend: row.backend } },
      );
    const session = this.#parts.table.get(row.id);
    await session?.made.promise;
    if (session !== undefined && session.ending === undefined && !repeated) await session.renew();
    return { session: viewOf(this.#parts.clock, session?.row ?? row), created: false };
  }

  async #change(
    caller: Caller,
    id: string,
    to: "paused" | "running",
    work: (backend: Backend, sandbox: string) => Promise<void>,
  ): Promise<SessionView> {
    const session = await this.#living(caller, id, ["running", "paused"]);
    await session.lifeLine.run(async () => {
      if (session.ending !== undefined) throw unusable(id, "destroyed");
      if (session.row.status === to) return;
      checkTransition(id, session.row.status, to);
      await work(session.backend, sandboxOf(session));
      await session.save({ status: to });
    });
    await session.renew();
    return viewOf(this.#parts.clock, session.row);
  }

  async #end(session: LiveSession, status: EndStatus, reason?: string): Promise<void> {
    const { table, clock } = this.#parts;
    session.creation.abort(new Error("the session is ended"));
    await session.made.promise.catch(() => undefined);
    // A pause under way first comes to its end.
    await session.lifeLine.run(async () => {
      if (session.row.status !== "destroying") await session.save({ status: "destroying" });
      await session.backend.destroy(sandboxOf(session));
      for (const recording of session.recordings) await recording.abandon("sandbox_gone");
      await session.closeChannel();
      await session.save({
        status,
        endedAtMs: clock.nowMs(),
        ...(reason !== undefined && { endReason: reason }),
      });
      table.remove(session);
    });
  }

  /** A session of this caller that is in one of these states and whose lease is not over. */
  async #living(
    caller: Owner,
    id: string,
    allowed: readonly SessionStatus[],
  ): Promise<LiveSession> {
    const session = this.#parts.table.get(id);
    if (session?.row.owner === caller.owner && session.adoption !== undefined)
      await this.settled(id);
    if (session?.row.owner !== caller.owner) {
      const row = await this.#row(caller, id);
      throw unusable(id, row.status, row.endReason);
    }
    if (session.ending !== undefined) {
      await session.ending.catch(() => undefined);
      throw unusable(id, session.row.status, session.row.endReason);
    }
    if (session.row.status !== "creating" && session.isOver) throw unusable(id, "expired");
    if (!allowed.includes(session.row.status)) throw unusable(id, session.row.status);
    return session;
  }

  async #row(caller: Owner, id: string): Promise<SessionRow> {
    const row = this.#parts.table.get(id)?.row ?? (await this.#parts.store.getSession(id));
    // SECURITY: what belongs to another does not exist (threat 51). Guarded by "of another owner" in sessions.test.ts.
    if (row === undefined || row.owner !== caller.owner)
      throw new SandboxError(
        "SESSION_NOT_FOUND",
        `there is no session ${id}; list the sessions to see which there are`,
      );
    return row;
  }
}

/** Shown as expired to somebody who asked for another status. */
function isOverdue({ status }: SessionView, asked: SessionQuery["status"]): boolean {
  return status === "expired" && asked !== undefined && asked !== "expired";
}

/** Whether the backend says that a sandbox is no more, rather than that it cannot be asked now. */
function isDeath(error: unknown): boolean {
  return (
    error instanceof SandboxError &&
    (error.code === "SANDBOX_NOT_FOUND" || error.code === "SANDBOX_UNREACHABLE")
  );
}

function outOfMemory(error: unknown): boolean {
  return error instanceof SandboxError && error.details?.["out_of_memory"] === true;
}

function failureText(error: unknown): string {
  return error instanceof SandboxError && error.status < 500
    ? error.message
    : "its sandbox could not be made";
}

function tooMany(caller: Caller): SandboxError {
  return new SandboxError(
    "QUOTA_EXCEEDED",
    `${caller.maxSessions} sessions may be open at once; destroy some first`,
    { details: { max_sessions: caller.maxSessions } },
  );
}
