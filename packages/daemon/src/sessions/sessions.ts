/** Sessions: made, found, used, paused, renewed and ended. */
import { setTimeout as sleep } from "node:timers/promises";
import { SandboxError } from "@sandkasten/protocol";
import type { SessionStatus } from "@sandkasten/protocol";
import type { SessionNetworks } from "../network/session-networks.ts";
import type { Backend, IsolationReport, SandboxStats } from "../ports/backend.ts";
import type { Events } from "../events/recorder.ts";
import type { Log } from "../ports/log.ts";
import type { Page, SessionRow, SessionStore } from "../ports/session-store.ts";
import { isLostOwnership, lostOwnership } from "../ports/session-store.ts";
import type { Telemetry, TraceContext } from "../ports/telemetry.ts";
import { isOver, viewOf } from "./lease.ts";
import { LiveSession, sandboxOf } from "./live-session.ts";
import { isUnreachable } from "./providers.ts";
import type { Provider } from "./providers.ts";
import type {
  Caller,
  CreateSessionOptions,
  SandboxAccess,
  SessionQuery,
  SessionService,
  SessionView,
} from "./services.ts";
import { sessionCreated } from "./session-events.ts";
import { SessionMaker } from "./session-maker.ts";
import type { SessionMakerParts } from "./session-maker.ts";
import { planSession } from "./session-plan.ts";
import type { SessionPlan } from "./session-plan.ts";
import type { NetworkRequest } from "../network/plan-network.ts";
import { trustCertificate } from "../network/trusted-certificates.ts";
import type { LiveSessions } from "./live-sessions.ts";
import type { Membership } from "./membership.ts";
import { checkTransition, isLiving, isUp, unusable } from "./states.ts";

/** How often a session that another daemon makes is looked for. */
const LOOK_INTERVAL_MS = 100;
/** Sessions in a list whose request does not say how many. */
const DEFAULT_PAGE_SIZE = 100;

export interface SessionsParts extends SessionMakerParts {
  readonly store: SessionStore;
  readonly log: Log;
  readonly events: Events;
  readonly table: LiveSessions;
  readonly membership: Membership;
  readonly networks: SessionNetworks;
  readonly telemetry: Telemetry;
}

type Owner = Pick<Caller, "owner" | "isReadOnly">;

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
    trace?: TraceContext,
  ): Promise<{ readonly session: SessionView; readonly created: boolean }> {
    const { settings, providers, store, table } = this.#parts;
    if (this.#closed)
      throw new SandboxError(
        "SANDBOX_UNREACHABLE",
        "the daemon is stopping; try again in a moment",
      );
    const provider = providers.choose(options.backend);
    await providers.ready(provider.backend);
    const plan = await planSession(caller, options, settings, provider, this.#parts.networks);
    const existing = await this.#ofKey(caller, options.key);
    if (existing !== undefined) return await this.#existing(existing, plan, options);
    const row = this.#maker.newRow(caller, options, plan, provider);
    const session = new LiveSession(row, this.#parts);
    table.add(session);
    try {
      // The intent is written down before anything is made: whatever happens, it can be cleaned up.
      const written = await store.insertSession(row, caller.maxSessions);
      if (!written.inserted) {
        table.remove(session);
        if ("overQuota" in written) throw tooMany(caller);
        return await this.#existing(written.existing, plan, options);
      }
    } catch (error) {
      table.remove(session);
      throw error;
    }
    this.#parts.events.tell(sessionCreated(row));
    const { id: sessionId, backend, image } = row;
    const observation = this.#parts.telemetry.sessionStarted({ sessionId, backend, image }, trace);
    try {
      await this.#make(caller, session, plan, provider);
    } catch (error) {
      observation.failed(error instanceof SandboxError ? error.code : "INTERNAL_ERROR");
      throw error;
    }
    observation.created(session.row.acquireSource);
    return { session: this.#view(session.shown), created: true };
  }

  async get(caller: Caller, id: string): Promise<SessionView> {
    await this.#parts.membership.certain();
    await this.settled(id);
    const row = await this.#row(caller, id);
    const [view] = await this.#views([row]);
    if (view === undefined) throw new Error("one row has one view");
    return view;
  }

  async list(caller: Caller, query: SessionQuery): Promise<Page<SessionView>> {
    const { owner } = caller;
    await this.#parts.membership.certain();
    const { rows, ...rest } = await this.#parts.store.listSessions({
      limit: query.limit ?? (await this.#pageSize(owner)),
      ...query,
      owner,
    });
    const views = await this.#views(rows);
    // One whose lease is over is written down as expired a little later.
    return { rows: views.filter((view) => !isOverdue(view, query.status)), ...rest };
  }

  /** Whoever knows no pages shall see all that live. */
  async #pageSize(owner: string): Promise<number> {
    const living = await this.#parts.store.livingSessions(owner);
    return Math.max(DEFAULT_PAGE_SIZE, living.length);
  }

  #view(row: SessionRow): SessionView {
    return viewOf(this.#parts.clock, this.#parts.membership, row);
  }

  /** As they are now, which is not known of those whose backend does not answer. */
  async #views(rows: readonly SessionRow[]): Promise<readonly SessionView[]> {
    const { table, membership, providers } = this.#parts;
    await Promise.all(rows.map(({ id }) => this.settled(id)));
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
    if (session?.row.owner === caller.owner) {
      await this.settled(id);
      await this.end(session, "destroyed");
      return;
    }
    const row = await this.#row(caller, id); // 404 when there never was one; done already otherwise.
    if (isLiving(row.status)) throw lostOwnership(id);
  }

  async pause(caller: Caller, id: string): Promise<SessionView> {
    return await this.#change(caller, id, "paused", (backend, sandbox) => backend.pause(sandbox));
  }

  async resume(caller: Caller, id: string): Promise<SessionView> {
    return await this.#change(caller, id, "running", (backend, sandbox) => backend.resume(sandbox));
  }

  /** Changes the network of a living session, in the store first. */
  async changeNetwork(caller: Caller, id: string, asked: NetworkRequest): Promise<SessionView> {
    const { networks } = this.#parts;
    const session = await this.#living(caller, id, ["running", "paused"]);
    await session.lifeLine.run(async () => {
      if (session.ending !== undefined) throw unusable(id, "destroyed");
      const { owner, network } = session.row;
      if (network === "engine")
        throw new SandboxError(
          "UNSUPPORTED",
          "this session has the network of the container engine, which cannot be changed; create a session with `network.allow`",
        );
      if (network === "none")
        throw new SandboxError(
          "CONFLICT",
          'this session was created without a network; create one with `network: {"allow": []}` to allow destinations later',
        );
      const planned = networks.plan(owner, asked);
      // Without a network means, once there is one, that nothing is allowed on it.
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
    const session = await this.#living(caller, id, ["running", "paused"]);
    await session.renew(ttlMs);
    return this.#view(session.row);
  }

  async stats(caller: Caller, id: string): Promise<SandboxStats> {
    const session = await this.#living(caller, id, ["running", "paused"]);
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

  /** For whatever is done inside the sandbox. */
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

  /** As its owner, whoever that is; the link has been checked. */
  async enterByLink(id: string): Promise<SandboxAccess> {
    const row = this.#parts.table.get(id)?.row ?? (await this.#parts.store.getSession(id));
    return await this.enter({ owner: row?.owner ?? "" }, id);
  }

  /** Digests of the images that sandboxes of all daemons, those that are being made here, and the pool use. */
  async imagesInUse(): Promise<ReadonlySet<string>> {
    const { store, table, pool } = this.#parts;
    const stored = (await store.livingSessions()).flatMap(({ imageDigest }) => imageDigest ?? []);
    const used = table
      .all()
      .flatMap(({ row, makingDigest }) => row.imageDigest ?? makingDigest ?? []);
    return new Set([...stored, ...used, ...pool.digests()]);
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

  /**
   * A running session with its lease renewed, to be left again by `leaveLive`. Whoever only looks
   * neither renews the lease nor keeps the session from ending.
   */
  async enterLive(caller: Owner, id: string): Promise<LiveSession> {
    for (;;) {
      const session = await this.#living(caller, id, ["running"]);
      await this.#parts.providers.ready(session.backend);
      // Looked at and entered without a wait in between, so that the reaper cannot come between them.
      if (session.isUsable) {
        if (caller.isReadOnly !== true) await session.enter();
        return session;
      }
    }
  }

  async leaveLive(caller: Owner, session: LiveSession): Promise<void> {
    if (caller.isReadOnly !== true) await session.leave();
  }

  /** To be disposed of by whoever asked. */
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
      await this.#openNetwork(session);
      await session.save({ status: "running", imageDigest: handle.imageDigest });
      session.made.resolve();
    } catch (error) {
      const failure = this.#whyNotMade(session, error);
      session.made.reject(failure);
      if (isLostOwnership(error)) await this.#discard(session);
      else if (!session.creation.signal.aborted) await this.#endFailed(session, failure);
      throw failure;
    }
  }

  /** Before anybody gets in, so that the first command finds the network and trusts the gateway. */
  async #openNetwork(session: LiveSession): Promise<void> {
    const { network, owner } = session.row;
    if (network === "none" || network === "engine") return;
    const channel = await session.channel();
    if (network.secrets === undefined) return;
    await trustCertificate(channel, this.#parts.networks.certificateOf(network.secrets, owner));
  }

  #whyNotMade({ creation, row }: LiveSession, error: unknown): Error {
    if (creation.signal.aborted)
      return new SandboxError("CONFLICT", `the session ${row.id} was destroyed while it was made`);
    return error instanceof Error ? error : new Error(String(error));
  }

  /** Whoever took over gave the session up, for its daemon had not come so far; the sandbox may have been made since. */
  async #discard(session: LiveSession): Promise<void> {
    this.#parts.table.remove(session);
    await session.backend.destroy(sandboxOf(session)).catch((failure: unknown) => {
      this.#parts.log.error({ err: failure, session: session.row.id }, "cannot clean up a session");
    });
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
    if (session === undefined) return { session: await this.#madeElsewhere(row), created: false };
    await session.made.promise;
    if (session.ending === undefined && !repeated) await session.renew();
    return { session: this.#view(session.row), created: false };
  }

  /** Another daemon makes it, or has made it: it is looked for in the store until it is there. */
  async #madeElsewhere(row: SessionRow): Promise<SessionView> {
    let found = row;
    while (found.status === "creating" && found.fence !== this.#parts.membership.fence) {
      await sleep(LOOK_INTERVAL_MS);
      found = (await this.#parts.store.getSession(row.id)) ?? { ...found, status: "failed" };
    }
    if (found.status === "failed")
      throw new SandboxError("CONFLICT", `the session ${row.id} could not be made`);
    return this.#view(found);
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
    return this.#view(session.row);
  }

  async #end(session: LiveSession, status: EndStatus, reason?: string): Promise<void> {
    const { table, clock, telemetry } = this.#parts;
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
      this.#parts.networks.remove(session.row.id);
      const { createdAtMs, endedAtMs = createdAtMs } = session.row;
      telemetry.sessionEnded({ status, lifetimeMs: Math.max(0, endedAtMs - createdAtMs) });
    });
  }

  /** A session of this caller that is in one of these states and whose lease is not over. */
  async #living(
    caller: Owner,
    id: string,
    allowed: readonly SessionStatus[],
  ): Promise<LiveSession> {
    await this.#parts.membership.certain();
    const session = this.#parts.table.get(id);
    if (session?.row.owner === caller.owner && session.adoption !== undefined)
      await this.settled(id);
    if (session?.row.owner !== caller.owner) {
      const row = await this.#row(caller, id);
      if (isLiving(row.status)) throw lostOwnership(id);
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
    // SECURITY: what belongs to another does not exist (threat: reaching another tenant). Guarded by
    // "of another owner" in sessions.test.ts.
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
