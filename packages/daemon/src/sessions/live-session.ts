/** A session that this daemon serves, in memory: a copy of the stored row, and its operations in progress. */
import { SandboxError } from "@sandkasten/protocol";
import type { SessionStatus } from "@sandkasten/protocol";
import type { SessionNetworks } from "../network/session-networks.ts";
import type { Backend } from "../ports/backend.ts";
import type { Channel } from "../ports/channel.ts";
import type { Events } from "../events/recorder.ts";
import type { Clock } from "../ports/clock.ts";
import { lostOwnership } from "../ports/lost-ownership.ts";
import type { SessionPatch, SessionRow, SessionStore } from "../ports/session-store.ts";
import { EarlierEnds } from "./earlier-ends.ts";
import { sandboxIdOf } from "./ids.ts";
import { isOver, renewedLease } from "./lease.ts";
import type { LeaseTime } from "./lease.ts";
import { OrderedEvents } from "./ordered-events.ts";
import { sandboxFence } from "./membership.ts";
import type { Providers } from "./providers.ts";
import type { LateOutput } from "./late-output.ts";
import { isLiving, isUp } from "./states.ts";
import type { EndStatus } from "./states.ts";
import type { Recording } from "./recording.ts";
import { recordSessionChange } from "./session-events.ts";
import { ShellQueues } from "./shell-queues.ts";
import { FifoMutex } from "./fifo-mutex.ts";

/** A lease written within this time is not written again for a small extension. */
const LEASE_WRITE_INTERVAL_MS = 1000;

export interface LiveSessionParts {
  readonly providers: Providers;
  readonly store: SessionStore;
  readonly clock: Clock;
  readonly events: Events;
  readonly networks: SessionNetworks;
  readonly membership: LeaseTime;
}

export class LiveSession {
  readonly shellQueues = new ShellQueues();
  /** Serializes pausing and resuming. */
  readonly lifecycleMutex = new FifoMutex();
  readonly recordings = new Set<Recording>();
  readonly events: OrderedEvents;
  readonly earlierEnds: EarlierEnds;
  /** Output of background processes, by command. */
  readonly lateOutputs = new Map<string, LateOutput>();
  /** Cancels a creation that is no longer wanted. */
  readonly creation = new AbortController();
  /** Settles when the creation has ended; rejects if it failed. */
  readonly made = Promise.withResolvers<void>();
  /** The image that the sandbox is being created from, which must not be removed meanwhile. */
  makingDigest: string | undefined;
  /** Set until the fate of an earlier daemon's sandbox is known; checks it now. */
  adoption: (() => Promise<void>) | undefined;
  /** Why its creation failed. Until the store has that, it stays `creating`. */
  unmade: string | undefined;
  /** Set as soon as the end is decided: no new operations are admitted. */
  ending: Promise<void> | undefined;
  /** How it ends, while its sandbox is being destroyed and until a retry has succeeded. */
  endsAs: { readonly status: EndStatus; readonly reason: string | undefined } | undefined;
  /** The sandbox is left to another daemon: this one stops, or was declared dead. */
  isReleased = false;
  /** The error code of a failed creation, for metrics. */
  failureCode: string | undefined;
  /** The fencing token that its sandbox is shown. */
  readonly sandboxFence: number | undefined;
  #row: SessionRow;
  #activeUses = 0;
  #leaseWrittenMs: number;
  #channel: Promise<Channel> | undefined;
  /** While its network is being opened, which the sandbox may delay. */
  #opening: Channel | undefined;
  readonly #parts: LiveSessionParts;
  /** Since when, in monotonic time. */
  readonly #knownSinceMs: number;

  constructor(
    row: SessionRow,
    parts: LiveSessionParts,
    fence = sandboxFence(parts.store, row.fence),
  ) {
    this.#row = row;
    this.#parts = parts;
    this.sandboxFence = fence;
    this.events = new OrderedEvents(parts.events);
    this.earlierEnds = new EarlierEnds(this.events);
    this.#knownSinceMs = parts.clock.monotonicMs();
    // A new session's row is stored with its lease; that of an earlier daemon's may be old.
    this.#leaseWrittenMs =
      row.status === "creating" ? this.#knownSinceMs : Number.NEGATIVE_INFINITY;
    this.made.promise.catch(() => undefined);
    if (row.status !== "creating") this.made.resolve();
  }

  get row(): SessionRow {
    return this.#row;
  }

  /** The backend that runs the sandbox. */
  get backend(): Backend {
    return this.#parts.providers.backendOf(this.#row.backend);
  }

  /** A paused session is not in use, whatever is frozen in it; nor is an unattended terminal. */
  get inUse(): boolean {
    if (this.#row.status === "paused") return false;
    const unattended = [...this.recordings].filter((recording) => recording.isUnattended).length;
    return this.#activeUses > unattended;
  }

  /** The row for display: while the session is in use, its lease does not run down. */
  get shown(): SessionRow {
    // It has been shown as expired since its lease ended. Any other end is shown when nothing is left.
    if (this.#row.status === "destroying" && this.endsAs?.status === "expired")
      return { ...this.#row, status: "expired" };
    if (!this.inUse) return this.#row;
    return { ...this.#row, leaseEndsMs: renewedLease(this.#parts.membership, this.#row) };
  }

  get isOver(): boolean {
    return isOver(this.#parts.membership, this.#row, this.inUse);
  }

  /** Whether it can be entered right now. */
  get isUsable(): boolean {
    return this.ending === undefined && this.#row.status === "running" && !this.isOver;
  }

  /** Changes the row, first in the store. */
  async save(patch: SessionPatch): Promise<void> {
    await this.#store(patch);
    await this.#saved(patch);
  }

  /**
   * Pauses or resumes. The store has the new status first, so a daemon that lost the session does not
   * touch the sandbox. If this daemon ends or stops in between, the status differs from the
   * sandbox's state, and the daemon that takes the session over knows that a request can still be on its way.
   */
  async saveAround(status: SessionStatus, work: () => Promise<void>): Promise<void> {
    await this.#store({ status });
    try {
      await work();
    } catch (error) {
      await this.#store({ status: this.#row.status });
      throw error;
    }
    await this.#saved({ status });
  }

  async #store(patch: SessionPatch): Promise<void> {
    const { id, fence, status } = this.#row;
    const saved = await this.#parts.store.updateSession(id, fence, this.#storedStatuses, patch);
    if (saved !== undefined) return;
    await this.#requireOwnership();
    // Only this object changes the row of a session served here, so a miss is a bug.
    throw new Error(`the row of ${id} is no longer ${status}`);
  }

  /**
   * The store has the new status of a session that is being paused or resumed. It keeps that one if
   * this fails and the store fails, too.
   */
  get #storedStatuses(): readonly SessionStatus[] {
    const { status } = this.#row;
    return isUp(status) ? ["running", "paused"] : [status];
  }

  async #saved(patch: SessionPatch): Promise<void> {
    const from = this.#row.status;
    this.#row = { ...this.#row, ...patch };
    const recorded = recordSessionChange(this.events, from, this.#row, {
      createdInMs: this.#parts.clock.monotonicMs() - this.#knownSinceMs,
      errorCode: this.failureCode,
    });
    if (recorded !== undefined) await recorded;
  }

  async #requireOwnership(): Promise<void> {
    const stored = await this.#parts.store.getSession(this.#row.id);
    if (stored?.fence !== this.#row.fence) throw lostOwnership(this.#row.id);
  }

  /** Begins an operation; the session does not expire before `leave`. */
  async enter(): Promise<void> {
    this.#activeUses += 1;
    try {
      await this.#renew({});
    } catch (error) {
      this.#activeUses -= 1;
      throw error;
    }
  }

  /** Ends an operation, and records the shell's directory. */
  async leave(cwd?: string): Promise<void> {
    if (this.#activeUses === 0) throw new Error(`${this.#row.id} is left more often than entered`);
    this.#activeUses -= 1;
    if (isLiving(this.#row.status) && this.ending === undefined)
      await this.#renew(cwd === undefined || cwd === this.#row.cwd ? {} : { cwd });
  }

  async renew(ttlMs?: number): Promise<void> {
    this.#leaseWrittenMs = Number.NEGATIVE_INFINITY;
    if (ttlMs !== undefined) this.#row = { ...this.#row, ttlMs };
    await this.#renew(ttlMs === undefined ? {} : { ttlMs });
  }

  /** One channel for everything done inside the sandbox. */
  async channel(): Promise<Channel> {
    this.#channel ??= this.#open();
    return await this.#channel;
  }

  /** Takes over an open channel. */
  adoptChannel(channel: Channel): void {
    this.#channel = this.#served(channel);
  }

  async closeChannel(): Promise<void> {
    for (const late of this.lateOutputs.values()) late.stop();
    const channel = this.#channel;
    this.#channel = undefined;
    this.#opening?.close();
    await channel?.then(
      (open) => open.close(),
      () => undefined, // It never opened; the caller already got the error.
    );
  }

  /**
   * The daemon stops and the sandbox continues: waiting callers are notified, and the next daemon
   * takes over.
   */
  async release(): Promise<void> {
    await this.made.promise.catch(() => undefined);
    await this.ending?.catch(() => undefined);
    await this.lose();
  }

  /** Another daemon serves the session: do not wait for anything, since nothing can be written. */
  async lose(): Promise<void> {
    this.isReleased = true;
    this.earlierEnds.release();
    for (const recording of this.recordings) recording.release();
    await this.closeChannel();
  }

  async #open(): Promise<Channel> {
    try {
      const opened = await this.backend.open(sandboxIdOf(this.#row), this.sandboxFence);
      return await this.#served(opened);
    } catch (error) {
      this.#channel = undefined;
      throw goneOr(error, this.#row.id);
    }
  }

  /** Attaches the session's network, if the gateway enforces one. */
  async #served(channel: Channel): Promise<Channel> {
    const { id, owner, network } = this.#row;
    if (network === "none" || network === "engine") return channel;
    this.#opening = channel;
    try {
      await this.#parts.networks.serve({ id, owner, network }, channel);
      return channel;
    } catch (error) {
      channel.close();
      throw error;
    } finally {
      if (this.#opening === channel) this.#opening = undefined;
    }
  }

  async #renew(patch: SessionPatch): Promise<void> {
    const { clock, membership, store } = this.#parts;
    const lease = {
      leaseEndsMs: renewedLease(membership, this.#row),
      lastActivityAtMs: clock.nowMs(),
    };
    this.#row = { ...this.#row, ...lease, ...patch };
    const now = clock.monotonicMs();
    if (Object.keys(patch).length === 0 && now - this.#leaseWrittenMs < LEASE_WRITE_INTERVAL_MS)
      return;
    this.#leaseWrittenMs = now;
    const { id, fence } = this.#row;
    const given = { ...lease, ...patch };
    const renewed = await store.updateSession(id, fence, this.#storedStatuses, given);
    if (renewed === undefined) await this.#requireOwnership();
  }
}

/** The session exists; a lost sandbox is detected shortly. */
function goneOr(error: unknown, id: string): unknown {
  if (!(error instanceof SandboxError) || error.code !== "SANDBOX_NOT_FOUND") return error;
  return new SandboxError("SANDBOX_UNREACHABLE", `the sandbox of session ${id} is gone`, {
    cause: error,
  });
}

/** The backend's id for the session's sandbox. */
export function sandboxOf(session: LiveSession): string {
  const { row } = session;
  if (!isLiving(row.status)) throw new SandboxError("CONFLICT", `session ${row.id} has no sandbox`);
  return sandboxIdOf(row);
}
