/** The sessions that this daemon serves, by id. */
import { SESSION_STATUSES } from "@sandkasten/protocol";
import type { SessionStatus } from "@sandkasten/protocol";
import type { LiveSession } from "./live-session.ts";

export class LiveSessions {
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

  /** A copy: the table may change during iteration. */
  all(): readonly LiveSession[] {
    return [...this.#byId.values()];
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
