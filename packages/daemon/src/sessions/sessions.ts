/** Sessions: creation, lookup, use, pause, renewal and end. */
import { SandboxError } from "@sandkasten/protocol";
import type { Backend, IsolationReport, SandboxStats } from "../ports/backend.ts";
import type { Page, SessionRow } from "../ports/session-store.ts";
import { lostOwnership } from "../ports/lost-ownership.ts";
import type { TraceContext } from "../ports/telemetry.ts";
import { aFewAtOnce } from "./a-few-at-once.ts";
import type { FileEvents } from "./file-events.ts";
import { isOver, LEASE_ENDED, viewOf } from "./lease.ts";
import { sandboxOf } from "./live-session.ts";
import type { LiveSession } from "./live-session.ts";
import { ownersOf } from "./owners.ts";
import type { Caller } from "./services/caller.ts";
import type {
  CreateSessionOptions,
  SandboxAccess,
  SessionQuery,
  SessionService,
  SessionView,
} from "./services/session-service.ts";
import { isOwn, isVisible, SessionFinder } from "./session-finder.ts";
import type { Owner } from "./session-finder.ts";
import { SessionCreation } from "./session-creation.ts";
import type { SessionCreationParts } from "./session-creation.ts";
import type { NetworkRequest } from "../network/plan-network.ts";
import { checkTransition, isLiving, isUp, unusable } from "./states.ts";
import type { EndStatus } from "./states.ts";
import { waitAtMost } from "./wait-at-most.ts";

/** Page size if the request does not set one. */
const DEFAULT_PAGE_SIZE = 100;
/** How long a list waits for the ends of overdue sessions. */
const OVERDUE_PATIENCE_MS = 500;

export interface SessionsParts extends Omit<SessionCreationParts, "settled" | "end"> {
  readonly fileEvents: FileEvents;
}

export class Sessions implements SessionService {
  readonly finder: SessionFinder;
  readonly #parts: SessionsParts;
  readonly #creation: SessionCreation;
  #closed = false;

  constructor(parts: SessionsParts) {
    this.#parts = parts;
    this.finder = new SessionFinder(parts);
    this.#creation = new SessionCreation({
      ...parts,
      settled: (id) => this.finder.settled(id),
      end: (session, status, reason) => this.end(session, status, reason),
    });
  }

  async create(
    caller: Caller,
    options: CreateSessionOptions,
    trace?: TraceContext,
  ): Promise<{ readonly session: SessionView; readonly created: boolean }> {
    if (this.#closed)
      throw new SandboxError(
        "SANDBOX_UNREACHABLE",
        "the daemon is stopping; try again in a moment",
      );
    const { row, created } = await this.#creation.create(caller, options, trace);
    return { session: this.#view(row), created };
  }

  /** Called by the reaper. */
  async tidy(): Promise<void> {
    await this.#creation.tidy();
  }

  async get(caller: Caller, id: string): Promise<SessionView> {
    return await this.#get(id, (row) => isOwn(caller, row));
  }

  async look(caller: Caller, id: string): Promise<SessionView> {
    return await this.#get(id, (row) => isVisible(caller, row));
  }

  async #get(id: string, may: (row: SessionRow) => boolean): Promise<SessionView> {
    await this.#parts.membership.certain();
    await this.finder.settled(id);
    const row = await this.finder.row(id, may);
    const [view] = await this.#views([row]);
    if (view === undefined) throw new Error("one row has one view");
    return view;
  }

  async list(caller: Caller, query: SessionQuery): Promise<Page<SessionView>> {
    const scope = ownersOf(caller, query.owner);
    await this.#parts.membership.certain();
    await this.#endOverdue(scope.owner);
    const { rows, ...rest } = await this.#parts.store.listSessions({
      limit: query.limit ?? (await this.#pageSize(scope.owner)),
      ...query,
      ...scope,
    });
    const views = await this.#views(rows);
    // The end of a session is stored a little later than it is decided.
    return { rows: views.filter((view) => !isOfOtherStatus(view, query.status)), ...rest };
  }

  /** The store filters and sorts by stored states, so the sessions past their lease are ended before. */
  async #endOverdue(owner: string | undefined): Promise<void> {
    const overdue = this.#parts.table
      .all()
      .filter(
        ({ row, isOver: over }) => over && isUp(row.status) && (owner ?? row.owner) === row.owner,
      );
    if (overdue.length === 0) return;
    const end = async (session: LiveSession): Promise<void> => {
      // The reaper retries it, and logs why it failed.
      await this.end(session, "expired", LEASE_ENDED).catch(() => undefined);
    };
    await waitAtMost(
      aFewAtOnce(() => overdue.pop(), end),
      OVERDUE_PATIENCE_MS,
      undefined,
    );
  }

  /** Clients that do not paginate must see all active sessions. */
  async #pageSize(owner: string | undefined): Promise<number> {
    const living = await this.#parts.store.livingSessions(owner);
    return Math.max(DEFAULT_PAGE_SIZE, living.length);
  }

  #view(row: SessionRow): SessionView {
    return viewOf(this.#parts.clock, this.#parts.membership, row);
  }

  /** The current states; unknown for sessions whose backend does not respond. */
  async #views(rows: readonly SessionRow[]): Promise<readonly SessionView[]> {
    const { table, membership, providers } = this.#parts;
    await Promise.all(rows.map(({ id }) => this.finder.settled(id)));
    const shown = rows.map((row) => table.get(row.id)?.shown ?? row);
    const unreachable = new Set<string>();
    for (const name of new Set(
      shown
        .filter(({ id, status }) => isUp(status) && table.get(id) !== undefined)
        .map((row) => row.backend),
    ))
      if (!(await providers.backendOf(name).reachable())) unreachable.add(name);
    return shown.map((row) => {
      const view = this.#view(row);
      const over = table.get(row.id)?.isOver ?? isOver(membership, row, false);
      if (isUp(row.status) && over) return { ...view, status: "expired" as const };
      return isUp(row.status) && table.get(row.id) !== undefined && unreachable.has(row.backend)
        ? { ...view, status: "unreachable" as const }
        : view;
    });
  }

  async destroy(caller: Caller, id: string): Promise<void> {
    const session = this.#parts.table.get(id);
    if (session !== undefined && isVisible(caller, session.row)) {
      await this.finder.settled(id);
      await this.end(session, "destroyed");
      return;
    }
    const row = await this.finder.row(id, (found) => isVisible(caller, found)); // 404 if there never was one; otherwise already done.
    if (isLiving(row.status)) throw lostOwnership(id);
  }

  async pause(caller: Caller, id: string): Promise<SessionView> {
    return await this.#change(caller, id, "paused", (backend, sandbox, fence) =>
      backend.pause(sandbox, fence),
    );
  }

  async resume(caller: Caller, id: string): Promise<SessionView> {
    return await this.#change(caller, id, "running", (backend, sandbox, fence) =>
      backend.resume(sandbox, fence),
    );
  }

  /** Changes the network of a running session, first in the store. */
  async changeNetwork(caller: Caller, id: string, asked: NetworkRequest): Promise<SessionView> {
    const { networks } = this.#parts;
    const session = await this.finder.living(caller, id, ["running", "paused"]);
    await session.lifecycleMutex.run(async () => {
      if (session.ending !== undefined) throw unusable(id, "destroyed");
      const { owner, network } = session.row;
      if (network === "engine")
        throw new SandboxError(
          "UNSUPPORTED",
          "this session uses the container engine's network, which cannot be changed; create a session with `network.allow`",
        );
      if (network === "none")
        throw new SandboxError(
          "CONFLICT",
          'this session was created without a network; create one with `network: {"allow": []}` to allow destinations later',
        );
      const planned = networks.plan(owner, asked);
      // Once a session has a network, `none` means that nothing is allowed on it.
      const changed = {
        ...(planned === "none" ? { allow: [] } : planned),
        ...(network.secrets !== undefined && { secrets: network.secrets }),
      };
      await session.save({ network: changed });
      networks.change({ id, owner, network }, changed);
    });
    await session.renew();
    return this.#view(session.row);
  }

  async renew(caller: Caller, id: string, ttlMs?: number): Promise<SessionView> {
    const session = await this.finder.living(caller, id, ["running", "paused"]);
    await session.renew(ttlMs);
    return this.#view(session.row);
  }

  async stats(caller: Caller, id: string): Promise<SandboxStats> {
    const session = await this.finder.living(caller, id, ["running", "paused"]);
    return await session.backend.stats(sandboxOf(session));
  }

  async isolation(caller: Caller, id: string): Promise<IsolationReport> {
    const session = await this.enterLive(caller, id);
    try {
      const report = await session.backend.isolation(sandboxOf(session));
      const { network } = session.row;
      if (network === "none" || network === "engine") return report;
      const networked = { ...session.row, network };
      return await this.#parts.networks.tryOut(networked, await session.channel(), report);
    } finally {
      await this.leaveLive(caller, session);
    }
  }

  /** For everything done inside the sandbox. */
  async enter(caller: Owner, id: string): Promise<SandboxAccess> {
    const session = await this.enterLive(caller, id);
    try {
      return this.#access(caller, session, await session.channel());
    } catch (error) {
      await this.leaveLive(caller, session);
      await this.lookAfter(session);
      throw error;
    }
  }

  /** Acts as the owner; the link has already been verified. */
  async enterByLink(id: string): Promise<SandboxAccess> {
    const row = this.#parts.table.get(id)?.row ?? (await this.#parts.store.getSession(id));
    return await this.enter({ owner: row?.owner ?? "" }, id);
  }

  /** Digests of the images used by sandboxes of all daemons, by creations in progress here, and by the pool. */
  async imagesInUse(): Promise<ReadonlySet<string>> {
    const { store, table, pool } = this.#parts;
    const stored = (await store.livingSessions()).flatMap(({ imageDigest }) => imageDigest ?? []);
    const used = table
      .all()
      .flatMap(({ row, makingDigest }) => row.imageDigest ?? makingDigest ?? []);
    return new Set([...stored, ...used, ...pool.digests()]);
  }

  /** Call when the daemon stops: refuses new sessions. */
  close(): void {
    this.#closed = true;
  }

  /**
   * A running session with its lease renewed, to be released by `leaveLive`. Read-only callers
   * neither renew the lease nor keep the session alive.
   */
  async enterLive(caller: Owner, id: string): Promise<LiveSession> {
    for (;;) {
      const session = await this.finder.living(caller, id, ["running"]);
      await this.#parts.providers.ready(session.backend);
      // Checked and entered without an await in between, so the reaper cannot intervene.
      if (session.isUsable) {
        if (caller.isReadOnly !== true) await session.enter();
        return session;
      }
    }
  }

  async leaveLive(caller: Owner, session: LiveSession): Promise<void> {
    if (caller.isReadOnly !== true) await session.leave();
  }

  /** The caller must dispose it. */
  #access(caller: Owner, session: LiveSession, channel: SandboxAccess["channel"]): SandboxAccess {
    let left = false;
    return {
      channel,
      [Symbol.dispose]: () => {
        if (left) return;
        left = true;
        this.leaveLive(caller, session).catch((error: unknown) => {
          this.#parts.log.error({ err: error, session: session.row.id }, "cannot renew a lease");
        });
      },
    };
  }

  /** Ends a session once; later callers wait for the same end. */
  async end(session: LiveSession, status: EndStatus, reason?: string): Promise<void> {
    if (session.ending === undefined) {
      session.endsAs = { status, reason };
      session.ending = this.#end(session, status, reason).catch((error: unknown) => {
        // The reaper will retry.
        session.ending = undefined;
        throw error;
      });
    }
    await session.ending;
  }

  /** Called after a failure inside: if the sandbox is dead, marks the session as crashed. */
  async lookAfter(session: LiveSession): Promise<void> {
    const { log } = this.#parts;
    if (session.ending !== undefined || session.row.status === "creating") return;
    try {
      await session.backend.adopt(sandboxOf(session));
    } catch (error) {
      if (!isDeath(error) || session.ending !== undefined) return;
      const reason = outOfMemory(error) ? "its sandbox ran out of memory" : "its sandbox died";
      await this.end(session, "crashed", reason).catch((failure: unknown) => {
        log.error({ err: failure, session: session.row.id }, "cannot clean up a dead sandbox");
      });
    }
  }

  async #change(
    caller: Caller,
    id: string,
    to: "paused" | "running",
    work: (backend: Backend, sandbox: string, fence: number | undefined) => Promise<void>,
  ): Promise<SessionView> {
    const session = await this.finder.living(caller, id, ["running", "paused"]);
    await session.lifecycleMutex.run(async () => {
      if (session.ending !== undefined) throw unusable(id, "destroyed");
      if (session.row.status === to) return;
      checkTransition(id, session.row.status, to);
      await session.saveAround(to, () =>
        work(session.backend, sandboxOf(session), session.sandboxFence),
      );
    });
    await session.renew();
    return this.#view(session.row);
  }

  async #end(session: LiveSession, status: EndStatus, reason?: string): Promise<void> {
    const { table, clock, fileEvents } = this.#parts;
    session.creation.abort(new Error("the session was ended"));
    await session.made.promise.catch(() => undefined);
    // Waits for a pause in progress.
    await session.lifecycleMutex.run(async () => {
      if (session.row.status !== "destroying") await session.save({ status: "destroying" });
      await session.backend.destroy(sandboxOf(session));
      // At once, so that none begins because the one before it has ended, and the store writes many
      // ends in one statement.
      await Promise.all([...session.recordings].map((each) => each.abandon("sandbox_gone")));
      await session.closeChannel();
      fileEvents.flushSession(session.row);
      await session.save({
        status,
        endedAtMs: clock.nowMs(),
        ...(reason !== undefined && { endReason: reason }),
      });
      table.remove(session);
      this.#parts.networks.remove(session.row.id);
    });
  }
}

/** Shown with another status than the stored one, by which the request filtered. */
function isOfOtherStatus({ status }: SessionView, asked: SessionQuery["status"]): boolean {
  return asked !== undefined && status !== asked && status !== "unreachable";
}

/** Whether the backend reports the sandbox as gone, rather than being unreachable. */
function isDeath(error: unknown): boolean {
  return (
    error instanceof SandboxError &&
    (error.code === "SANDBOX_NOT_FOUND" || error.code === "SANDBOX_UNREACHABLE")
  );
}

function outOfMemory(error: unknown): boolean {
  return error instanceof SandboxError && error.details?.["out_of_memory"] === true;
}
