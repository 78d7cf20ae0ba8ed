/** Finds sessions for their callers: those that this daemon serves in memory, all others in the store. */
import { SandboxError } from "@sandkasten/protocol";
import type { SessionStatus } from "@sandkasten/protocol";
import type { SessionRow, SessionStore } from "../ports/session-store.ts";
import { lostOwnership } from "../ports/lost-ownership.ts";
import type { LiveSession } from "./live-session.ts";
import type { LiveSessions } from "./live-sessions.ts";
import type { Membership } from "./membership.ts";
import { isUnreachable } from "./providers.ts";
import type { Caller } from "./services/caller.ts";
import { isLiving, unusable } from "./states.ts";

export type Owner = Pick<Caller, "owner" | "isReadOnly">;

export interface SessionFinderParts {
  readonly store: SessionStore;
  readonly table: LiveSessions;
  readonly membership: Membership;
}

export class SessionFinder {
  readonly #parts: SessionFinderParts;

  constructor(parts: SessionFinderParts) {
    this.#parts = parts;
  }

  /** A session of this caller that is in one of these states and within its lease. */
  async living(caller: Owner, id: string, allowed: readonly SessionStatus[]): Promise<LiveSession> {
    await this.#parts.membership.certain();
    const session = this.#parts.table.get(id);
    if (session?.row.owner === caller.owner && session.adoption !== undefined)
      await this.settled(id);
    if (session?.row.owner !== caller.owner) {
      const row = await this.row(id, (found) => isOwn(caller, found));
      if (isLiving(row.status)) throw lostOwnership(id);
      throw unusable(id, row.status, row.endReason);
    }
    if (session.ending !== undefined) {
      await session.ending.catch(() => undefined);
      throw unusable(id, session.shown.status, session.row.endReason);
    }
    const { status } = session.shown;
    if (status !== "creating" && session.isOver) throw unusable(id, "expired");
    if (!allowed.includes(status)) throw unusable(id, status);
    return session;
  }

  async row(id: string, may: (row: SessionRow) => boolean): Promise<SessionRow> {
    const row = this.#parts.table.get(id)?.row ?? (await this.#parts.store.getSession(id));
    // SECURITY: what belongs to another owner does not exist (threat: reaching another tenant).
    // Guarded by "of another owner" in sessions.test.ts.
    if (row === undefined || !may(row))
      throw new SandboxError(
        "SESSION_NOT_FOUND",
        `there is no session ${id}; list the sessions to find the id`,
      );
    return row;
  }

  /** Rejects with `lostOwnership` if another daemon serves the living session by now. */
  async requireServed(caller: Owner, id: string): Promise<void> {
    await this.#parts.membership.certain();
    if (this.#parts.table.get(id) !== undefined) return;
    const row = await this.row(id, (found) => isOwn(caller, found));
    if (isLiving(row.status)) throw lostOwnership(id);
  }

  /** Waits until the state of a session from an earlier daemon is known, if it can be determined now. */
  async settled(id: string): Promise<void> {
    try {
      await this.#parts.table.get(id)?.adoption?.();
    } catch (error) {
      if (!isUnreachable(error)) throw error;
    }
  }
}

export function isOwn({ owner }: Owner, row: SessionRow): boolean {
  return row.owner === owner;
}

/**
 * SECURITY: an administrator sees that a session exists, and can end it, but cannot enter it or
 * read its commands, output and files, which stay private to its owner (threat: reaching another
 * tenant). Guarded by tenants.test.ts.
 */
export function isVisible({ owner, isAdmin }: Caller, row: SessionRow): boolean {
  return isAdmin || row.owner === owner;
}
