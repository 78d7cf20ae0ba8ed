/** Creates sessions: plans, records and creates them, or finds the existing one. */
import { setImmediate as otherWork, setTimeout as sleep } from "node:timers/promises";
import { SandboxError } from "@sandkasten/protocol";
import type { Events } from "../events/recorder.ts";
import type { SessionNetworks } from "../network/session-networks.ts";
import { trustCertificate } from "../network/trusted-certificates.ts";
import type { Log } from "../ports/log.ts";
import type { AdmittedSession, SessionRow, SessionStore } from "../ports/session-store.ts";
import { isLostOwnership } from "../ports/lost-ownership.ts";
import type { Telemetry, TraceContext } from "../ports/telemetry.ts";
import { LEASE_ENDED } from "./lease.ts";
import { LiveSession, sandboxOf } from "./live-session.ts";
import type { LiveSessions } from "./live-sessions.ts";
import type { Membership } from "./membership.ts";
import type { Pooled } from "./pool.ts";
import type { Provider } from "./providers.ts";
import type { Caller } from "./services/caller.ts";
import type { CreateSessionOptions } from "./services/session-service.ts";
import { sessionCreated } from "./session-events.ts";
import { SessionMaker } from "./session-maker.ts";
import type { SessionMakerParts } from "./session-maker.ts";
import { planSession } from "./session-plan.ts";
import type { SessionPlan } from "./session-plan.ts";
import type { EndStatus } from "./states.ts";
import { UncertainSessions } from "./uncertain-sessions.ts";

/** How often to check for a session that another daemon is creating. */
const LOOK_INTERVAL_MS = 100;

export interface SessionCreationParts extends SessionMakerParts {
  readonly store: SessionStore;
  readonly log: Log;
  readonly events: Events;
  readonly table: LiveSessions;
  readonly membership: Membership;
  readonly networks: SessionNetworks;
  readonly telemetry: Telemetry;
  /** Waits until the state of a session from an earlier daemon is known. */
  readonly settled: (id: string) => Promise<void>;
  readonly end: (session: LiveSession, status: EndStatus, reason?: string) => Promise<void>;
}

/** A new session, and the pooled sandbox that it got; or the existing one. */
type Recorded =
  | { readonly session: LiveSession; readonly pooled: Pooled | undefined }
  | { readonly existing: SessionRow };

interface Created {
  readonly row: SessionRow;
  /** False for an existing session. */
  readonly created: boolean;
}

export class SessionCreation {
  readonly #parts: SessionCreationParts;
  readonly #maker: SessionMaker;
  readonly #uncertain: UncertainSessions;
  /** Settles when the next request may begin. */
  #turn: Promise<void> = Promise.resolve();

  constructor(parts: SessionCreationParts) {
    this.#parts = parts;
    this.#uncertain = new UncertainSessions(parts);
    this.#maker = new SessionMaker(parts);
  }

  async create(
    caller: Caller,
    options: CreateSessionOptions,
    trace?: TraceContext,
  ): Promise<Created> {
    await this.#nextTurn();
    const { settings, providers } = this.#parts;
    const provider = providers.choose(options.backend);
    await providers.ready(provider.backend);
    const plan = await planSession(caller, options, settings, provider, this.#parts.networks);
    const existing = await this.#ofKey(caller, options.key);
    if (existing !== undefined) return await this.#existing(existing, plan, options);
    const recorded = await this.#record(caller, options, plan, provider);
    if ("existing" in recorded) {
      if (await this.#endUnmade(recorded.existing))
        return await this.create(caller, options, trace);
      return await this.#existing(recorded.existing, plan, options);
    }
    const { session, pooled } = recorded;
    this.#parts.events.record(sessionCreated(session.row));
    const { id: sessionId, backend, image } = session.row;
    const observation = this.#parts.telemetry.sessionStarted({ sessionId, backend, image }, trace);
    try {
      await this.#make(caller, session, plan, provider, pooled);
    } catch (error) {
      observation.failed(error instanceof SandboxError ? error.code : "INTERNAL_ERROR");
      throw error;
    }
    observation.created(session.row.acquireSource);
    return { row: session.shown, created: true };
  }

  /**
   * One in each turn of the event loop: in a burst, the first would otherwise wait until all have been
   * planned and stored, and so would commands of other sessions.
   */
  async #nextTurn(): Promise<void> {
    const turn = this.#turn;
    this.#turn = turn.then(() => otherWork());
    await turn;
  }

  /** Ends what the store has of creations that it did not answer. */
  async tidy(): Promise<void> {
    await this.#uncertain.tidy();
  }

  /**
   * The intent is recorded before anything is created, so it can be cleaned up in any case. One step
   * turns a pooled sandbox into the session's: whenever the daemon dies, the store knows it as the
   * one or the other.
   */
  async #record(
    caller: Caller,
    options: CreateSessionOptions,
    plan: SessionPlan,
    provider: Provider,
  ): Promise<Recorded> {
    for (;;) {
      const pooled = await this.#maker.reserve(plan, provider);
      const row = this.#maker.newRow(caller, options, plan, provider, pooled);
      const session = new LiveSession(row, this.#parts);
      const written = await this.#insert(session, caller.maxSessions, pooled);
      if (written.inserted) return { session, pooled };
      if ("overQuota" in written) throw tooMany(caller);
      if ("existing" in written) return written;
      // The others declared this daemon dead, and the sandbox an orphan: take the next one.
    }
  }

  async #insert(
    session: LiveSession,
    maxSessions: number,
    pooled: Pooled | undefined,
  ): Promise<AdmittedSession> {
    const { pool, store, table } = this.#parts;
    table.add(session);
    let written: AdmittedSession | undefined;
    try {
      written = await store.insertSession(session.row, maxSessions);
      return written;
    } catch (error) {
      if (!isLostOwnership(error)) this.#uncertain.add(session, asError(error));
      throw error;
    } finally {
      if (written?.inserted !== true) {
        table.remove(session);
        const isLost = written !== undefined && "sandboxLost" in written;
        if (pooled !== undefined) await (isLost ? pool.discard(pooled) : pool.giveBack(pooled));
      }
    }
  }

  async #make(
    caller: Caller,
    session: LiveSession,
    plan: SessionPlan,
    provider: Provider,
    pooled: Pooled | undefined,
  ): Promise<void> {
    try {
      const handle = await this.#maker.acquire(caller, session, plan, provider, pooled);
      await this.#openNetwork(session, plan.trustedCertificate);
      await session.save({ status: "running", imageDigest: handle.imageDigest });
      session.made.resolve();
    } catch (error) {
      const failure = this.#whyNotMade(session, error);
      session.made.reject(failure);
      if (isLostOwnership(error)) {
        await this.#discard(session);
        throw failure;
      }
      session.unmade = failureText(failure);
      if (!session.creation.signal.aborted) await this.#endFailed(session, failure, session.unmade);
      throw failure;
    }
  }

  /** Before anybody gets in, so that the first command finds the network and trusts the gateway. */
  async #openNetwork(session: LiveSession, certificate: string | undefined): Promise<void> {
    const { network } = session.row;
    if (network === "none" || network === "engine") return;
    const channel = await session.channel();
    if (certificate !== undefined) await trustCertificate(channel, certificate);
  }

  #whyNotMade({ creation, row }: LiveSession, error: unknown): Error {
    if (creation.signal.aborted)
      return new SandboxError(
        "CONFLICT",
        `session ${row.id} was destroyed while it was being created`,
      );
    return asError(error);
  }

  /** The daemon that took over ended the unfinished session; this one may have created the sandbox since. */
  async #discard(session: LiveSession): Promise<void> {
    this.#parts.table.remove(session);
    await session.backend.destroy(sandboxOf(session)).catch((failure: unknown) => {
      this.#parts.log.error({ err: failure, session: session.row.id }, "cannot clean up a session");
    });
  }

  /** The caller gets the original error, even if the cleanup fails too; the reaper retries it. */
  async #endFailed(session: LiveSession, error: unknown, reason: string): Promise<void> {
    session.failureCode = error instanceof SandboxError ? error.code : "INTERNAL_ERROR";
    await this.#parts.end(session, "failed", reason).catch((failure: unknown) => {
      this.#parts.log.error({ err: failure, session: session.row.id }, "cannot clean up a session");
    });
  }

  /** The usable session with this key. */
  async #ofKey(caller: Caller, key: string | undefined): Promise<SessionRow | undefined> {
    if (key === undefined) return undefined;
    const row = await this.#parts.store.findByKey(caller.owner, key);
    const session = row && this.#parts.table.get(row.id);
    if (session === undefined) return undefined;
    if (await this.#endUnmade(session.row)) return undefined;
    await this.#parts.settled(session.row.id);
    if (session.row.status === "destroying") return undefined;
    if (session.row.status !== "creating" && session.isOver)
      await this.#parts.end(session, "expired", LEASE_ENDED);
    if (session.ending === undefined) return session.row;
    // Whether or not that works now, it no longer blocks the key.
    await session.ending.catch(() => undefined);
    return undefined;
  }

  /** What could not be created no longer counts as the result of a repeated request. */
  async #endUnmade({ id }: SessionRow): Promise<boolean> {
    if (await this.#uncertain.end(id)) return true;
    const session = this.#parts.table.get(id);
    if (session?.unmade === undefined) return false;
    await this.#parts.settled(id);
    await this.#parts.end(session, "failed", session.unmade);
    return true;
  }

  async #existing(
    row: SessionRow,
    plan: SessionPlan,
    options: CreateSessionOptions,
  ): Promise<Created> {
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
        `the session with key ${row.key} has the image ${row.image}, not ${plan.image}; use another key`,
        { details: { session_id: row.id, image: row.image } },
      );
    if (!repeated && options.backend !== undefined && row.backend !== options.backend)
      throw new SandboxError(
        "CONFLICT",
        `the session with key ${row.key} is on the backend ${row.backend}, not ${options.backend}; use another key`,
        { details: { session_id: row.id, backend: row.backend } },
      );
    const session = this.#parts.table.get(row.id);
    if (session === undefined) return { row: await this.#madeElsewhere(row), created: false };
    await session.made.promise;
    if (session.ending === undefined && !repeated) await session.renew();
    return { row: session.row, created: false };
  }

  /** Another daemon is creating it, or has: poll the store until it is ready. */
  async #madeElsewhere(row: SessionRow): Promise<SessionRow> {
    let found = row;
    while (found.status === "creating" && found.fence !== this.#parts.membership.fence) {
      await sleep(LOOK_INTERVAL_MS);
      found = (await this.#parts.store.getSession(row.id)) ?? { ...found, status: "failed" };
    }
    if (found.status === "failed")
      throw new SandboxError("CONFLICT", `session ${row.id} could not be created`);
    return found;
  }
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}

function failureText(error: unknown): string {
  return error instanceof SandboxError && error.status < 500
    ? error.message
    : "its sandbox could not be created";
}

function tooMany(caller: Caller): SandboxError {
  return new SandboxError(
    "QUOTA_EXCEEDED",
    `at most ${caller.maxSessions} sessions may be open at once; destroy some first`,
    { details: { max_sessions: caller.maxSessions } },
  );
}
