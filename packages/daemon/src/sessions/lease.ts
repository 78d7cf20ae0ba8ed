/** How long a session lives: a lease that slides with use, within a lifetime that does not. */
import type { Clock } from "../ports/clock.ts";
import type { SessionRow } from "../ports/session-store.ts";
import type { SessionView } from "./services.ts";

export type Lease = Pick<SessionRow, "bootId" | "leaseEndsMs" | "lifetimeEndsMs">;

export function newLease(clock: Clock, ttlMs: number, lifetimeMs: number): Lease {
  const now = clock.monotonicMs();
  return {
    bootId: clock.bootId,
    leaseEndsMs: now + Math.min(ttlMs, lifetimeMs),
    lifetimeEndsMs: now + lifetimeMs,
  };
}

/** When the lease ends if it is renewed now. */
export function renewedLease(clock: Clock, row: SessionRow): number {
  return Math.min(clock.monotonicMs() + row.ttlMs, row.lifetimeEndsMs);
}

/** A session in use lives until its lifetime is over, an idle one until its lease is. */
export function isOver(clock: Clock, lease: Lease, inUse: boolean): boolean {
  const now = clock.monotonicMs();
  return now >= lease.lifetimeEndsMs || (!inUse && now >= lease.leaseEndsMs);
}

/** Leases are counted in time that does not jump; people want to see them in wall time. */
export function viewOf(clock: Clock, row: SessionRow): SessionView {
  if (row.endedAtMs !== undefined || row.bootId !== clock.bootId) {
    const ended = row.endedAtMs ?? row.lastActivityAtMs;
    return { ...row, expiresAtMs: ended, maxExpiresAtMs: ended };
  }
  const offset = clock.nowMs() - clock.monotonicMs();
  return {
    ...row,
    expiresAtMs: Math.round(offset + row.leaseEndsMs),
    maxExpiresAtMs: Math.round(offset + row.lifetimeEndsMs),
  };
}
