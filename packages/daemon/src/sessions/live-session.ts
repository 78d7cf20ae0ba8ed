/** A session that this daemon serves, as it holds it in memory: a copy of what the store has, and what is under way. */
import { SandboxError } from "@sandkasten/protocol";
import type { SessionNetworks } from "../network/session-networks.ts";
import type { Backend } from "../ports/backend.ts";
import type { Channel } from "../ports/channel.ts";
import type { Events } from "../events/recorder.ts";
import type { Clock } from "../ports/clock.ts";
import { lostOwnership } from "../ports/session-store.ts";
import type { SessionPatch, SessionRow, SessionStore } from "../ports/session-store.ts";
import { isOver, renewedLease } from "./lease.ts";
import type { LeaseTime } from "./lease.ts";
import type { Providers } from "./providers.ts";
import type { LateOutput } from "./late-output.ts";
import { isLiving } from "./states.ts";
import type { Recording } from "./recording.ts";
import { tellOfSession } from "./session-events.ts";
import { ShellQueues } from "./shell-queues.ts";
import { FifoMutex } from "./fifo-mutex.ts";

/** A lease that was written down within this time is not written again for a little more. */
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
  /** Pausing and resuming happen one after the other. */
  readonly lifecycleMutex = new FifoMutex();
  readonly recordings = new Set<Recording>();
  /** By command: what processes that it left in the background still print. */
  readonly lateOutputs = new Map<string, LateOutput>();
  /** Gives up a creation that nobody wants any more. */
  readonly creation = new AbortController();
  /** Settles when the session is no longer being made; rejects when that failed. */
  readonly made = Promise.withResolvers<void>();
  /** The image that its sandbox is being made of, which must not be removed meanwhile. */
  makingDigest: string | undefined;
  /** Set while nobody knows yet what became of a sandbox that an earlier daemon made; looks now. */
  adoption: (() => Promise<void>) | undefined;
  /** Set as soon as the end is decided: nobody gets in any more. */
  ending: Promise<void> | undefined;
  /** The sandbox is left to another daemon: this one stops, or is held for dead. */
  isReleased = false;
  /** Why it could not be made, for those who count. */
  failureCode: string | undefined;
  #row: SessionRow;
  #activeUses = 0;
  #leaseWrittenMs = Number.NEGATIVE_INFINITY;
  #channel: Promise<Channel> | undefined;
  readonly #parts: LiveSessionParts;
  /** Since when, in monotonic time. */
  readonly #knownSinceMs: number;

  constructor(row: SessionRow, parts: LiveSessionParts) {
    this.#row = row;
    this.#parts = parts;
    this.#knownSinceMs = parts.clock.monotonicMs();
    this.made.promise.catch(() => undefined);
    if (row.status !== "creating") this.made.resolve();
  }

  get row(): SessionRow {
    return this.#row;
  }

  /** The one that its sandbox is of. */
  get backend(): Backend {
    return this.#parts.providers.backendOf(this.#row.backend);
  }

  /** A paused session is not in use, whatever is frozen in it; nor is a terminal that nobody sits at. */
  get inUse(): boolean {
    if (this.#row.status === "paused") return false;
    const unattended = [...this.recordings].filter((recording) => recording.isUnattended).length;
    return this.#activeUses > unattended;
  }

  /** As it shall be shown: while it is in use its lease does not run. */
  get shown(): SessionRow {
    if (!this.inUse) return this.#row;
    return { ...this.#row, leaseEndsMs: renewedLease(this.#parts.membership, this.#row) };
  }

  get isOver(): boolean {
    return isOver(this.#parts.membership, this.#row, this.inUse);
  }

  /** Whether it can be entered at this very moment. */
  get isUsable(): boolean {
    return this.ending === undefined && this.#row.status === "running" && !this.isOver;
  }

  /** Changes the row, in the store first. */
  async save(patch: SessionPatch): Promise<void> {
    const from = this.#row.status;
    const { id, fence } = this.#row;
    const saved = await this.#parts.store.updateSession(id, fence, [from], patch);
    if (saved === undefined) {
      await this.#requireOwnership();
      // Only this object changes the row of a session that is served here, so a miss is a fault of ours.
      throw new Error(`the row of ${id} is not ${from} any more`);
    }
    this.#row = { ...this.#row, ...patch };
    const told = tellOfSession(this.#parts.events, from, this.#row, {
      createdInMs: this.#parts.clock.monotonicMs() - this.#knownSinceMs,
      errorCode: this.failureCode,
    });
    if (told !== undefined) await told;
  }

  /** Takes a sandbox of the pool; false when it is this daemon's no more. */
  async takeSandbox(sandboxId: string): Promise<boolean> {
    const { id, fence } = this.#row;
    const saved = await this.#parts.store.giveSandbox(id, fence, sandboxId);
    if (saved === undefined) {
      await this.#requireOwnership();
      return false;
    }
    this.#row = { ...this.#row, sandboxId, acquireSource: "pool" };
    return true;
  }

  async #requireOwnership(): Promise<void> {
    const stored = await this.#parts.store.getSession(this.#row.id);
    if (stored?.fence !== this.#row.fence) throw lostOwnership(this.#row.id);
  }

  /** Begins a stay; the session does not end for want of use before `leave`. */
  async enter(): Promise<void> {
    this.#activeUses += 1;
    try {
      await this.#renew({});
    } catch (error) {
      this.#activeUses -= 1;
      throw error;
    }
  }

  /** Ends a stay, and notes where the shell is now. */
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

  /** One channel for all that is done inside. */
  async channel(): Promise<Channel> {
    this.#channel ??= this.#open();
    return await this.#channel;
  }

  /** Takes over a channel that is open already. */
  adoptChannel(channel: Channel): void {
    this.#channel = this.#served(channel);
  }

  async closeChannel(): Promise<void> {
    for (const late of this.lateOutputs.values()) late.stop();
    const channel = this.#channel;
    this.#channel = undefined;
    await channel?.then(
      (open) => open.close(),
      () => undefined, // It never opened; whoever asked for it was told.
    );
  }

  /** The daemon stops and the sandbox goes on: whoever waits is told, and the next daemon takes over. */
  async release(): Promise<void> {
    await this.made.promise.catch(() => undefined);
    await this.ending?.catch(() => undefined);
    await this.lose();
  }

  /** Another daemon serves it: nothing is waited for, for nothing can be written any more. */
  async lose(): Promise<void> {
    this.isReleased = true;
    for (const recording of this.recordings) recording.release();
    await this.closeChannel();
  }

  async #open(): Promise<Channel> {
    try {
      return await this.#served(await this.backend.open(this.#row.sandboxId ?? ""));
    } catch (error) {
      this.#channel = undefined;
      throw goneOr(error, this.#row.id);
    }
  }

  /** With the network of the session behind it, if there is one that the gateway enforces. */
  async #served(channel: Channel): Promise<Channel> {
    const { id, owner, network } = this.#row;
    if (network === "none" || network === "engine") return channel;
    try {
      await this.#parts.networks.serve({ id, owner, network }, channel);
      return channel;
    } catch (error) {
      channel.close();
      throw error;
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
    const { id, fence, status } = this.#row;
    const renewed = await store.updateSession(id, fence, [status], { ...lease, ...patch });
    if (renewed === undefined) await this.#requireOwnership();
  }
}

/** The session is there; that its sandbox is not any more is known of in a moment. */
function goneOr(error: unknown, id: string): unknown {
  if (!(error instanceof SandboxError) || error.code !== "SANDBOX_NOT_FOUND") return error;
  return new SandboxError("SANDBOX_UNREACHABLE", `the sandbox of the session ${id} is gone`, {
    cause: error,
  });
}

/** The backend's name for the sandbox of a session that has one. */
export function sandboxOf(session: LiveSession): string {
  const { sandboxId, id } = session.row;
  if (sandboxId === undefined || !isLiving(session.row.status))
    throw new SandboxError("CONFLICT", `the session ${id} has no sandbox`);
  return sandboxId;
}
