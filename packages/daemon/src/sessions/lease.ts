/** How long a session lives: a lease that is extended by use, within a fixed lifetime. */
import type { Clock } from "../ports/clock.ts";
import type { SessionRow } from "../ports/session-store.ts";
import type { SessionView } from "./services/session-service.ts";

/** Why an expired session ended. */
export const LEASE_ENDED = "its lease ended";

export type Lease = Pick<SessionRow, "leaseEndsMs" | "lifetimeEndsMs">;

/** The time base of leases: the store's time, which survives restarts, reboots and clock changes. */
export interface LeaseTime {
  storeMs(): number;
}

export function newLease(time: LeaseTime, ttlMs: number, lifetimeMs: number): Lease {
  const now = time.storeMs();
  return { leaseEndsMs: now + Math.min(ttlMs, lifetimeMs), lifetimeEndsMs: now + lifetimeMs };
}

/** When the lease ends if it is renewed now. */
export function renewedLease(time: LeaseTime, row: SessionRow): number {
  return Math.min(time.storeMs() + row.ttlMs, row.lifetimeEndsMs);
}

/** A session in use lives until its lifetime ends, an idle one until its lease ends. */
export function isOver(time: LeaseTime, lease: Lease, inUse: boolean): boolean {
  const now = time.storeMs();
  return now >= lease.lifetimeEndsMs || (!inUse && now >= lease.leaseEndsMs);
}

/** Converts leases from store time, which never jumps, to wall time for display. */
export function viewOf(clock: Clock, time: LeaseTime, row: SessionRow): SessionView {
  if (row.endedAtMs !== undefined)
    return { ...row, expiresAtMs: row.endedAtMs, maxExpiresAtMs: row.endedAtMs };
  const offset = clock.nowMs() - time.storeMs();
  return {
    ...row,
    expiresAtMs: Math.round(offset + row.leaseEndsMs),
    maxExpiresAtMs: Math.round(offset + row.lifetimeEndsMs),
  };
}
