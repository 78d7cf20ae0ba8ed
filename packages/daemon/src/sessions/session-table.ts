/** The sessions that have not ended, by id. */
import { SESSION_STATUSES } from "@sandkasten/protocol";
import type { SessionStatus } from "@sandkasten/protocol";
import type { LiveSession } from "./live-session.ts";

export class SessionTable {
  readonly #byId = new Map<string, LiveSession>();

  add(session: LiveSession): void {
    this.#byId.set(session.row.id, session);
  }

  remove(session: LiveSession): void {
    this.#byId.delete(session.row.id);
  }

  get(id: string): LiveSession | undefined {
    return this.#byId.get(id);
  }

  /** A copy: the table may change while it is gone through. */
  all(): readonly LiveSession[] {
    return [...this.#byId.values()];
  }

  countOf(owner: string): number {
    let count = 0;
    for (const { row, ending } of this.#byId.values())
      if (row.owner === owner && ending === undefined) count++;
    return count;
  }

  /** Also those whose end has begun. */
  livingOf(owner: string): number {
    let count = 0;
    for (const { row } of this.#byId.values()) if (row.owner === owner) count++;
    return count;
  }

  runningExecsOf(owner: string): number {
    let count = 0;
    for (const session of this.#byId.values())
      if (session.row.owner === owner) count += session.recordings.size;
    return count;
  }

  countsByStatus(): Record<SessionStatus, number> {
    const counts = Object.fromEntries(SESSION_STATUSES.map((status) => [status, 0])) as Record<
      SessionStatus,
      number
    >;
    for (const { row } of this.#byId.values()) counts[row.status]++;
    return counts;
  }
}
