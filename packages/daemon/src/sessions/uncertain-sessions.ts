/** Sessions whose insertion failed without a verdict: the store may have them, and no client knows them. */
import type { Events } from "../events/recorder.ts";
import type { Clock } from "../ports/clock.ts";
import type { Log } from "../ports/log.ts";
import type { SessionStore } from "../ports/session-store.ts";
import type { LiveSession } from "./live-session.ts";
import type { LiveSessions } from "./live-sessions.ts";
import { sessionCreated } from "./session-events.ts";

/** How late the store may still carry out a request that it did not answer. */
const MAX_LATE_MS = 5 * 60_000;

export interface UncertainSessionsParts {
  readonly store: SessionStore;
  readonly clock: Clock;
  readonly log: Log;
  readonly events: Events;
  readonly table: LiveSessions;
  readonly end: (session: LiveSession, status: "failed", reason: string) => Promise<void>;
}

interface Uncertain {
  readonly session: LiveSession;
  readonly sinceMs: number;
  isRecorded: boolean;
}

export class UncertainSessions {
  readonly #parts: UncertainSessionsParts;
  readonly #left = new Map<string, Uncertain>();

  constructor(parts: UncertainSessionsParts) {
    this.#parts = parts;
  }

  /** Ends it now, if the store answers again and has it; otherwise `tidy` does. */
  add(session: LiveSession, failure: Error): void {
    session.made.reject(failure);
    const sinceMs = this.#parts.clock.monotonicMs();
    this.#left.set(session.row.id, { session, sinceMs, isRecorded: false });
    this.end(session.row.id).catch((error: unknown) => {
      const fields = { err: error, session: session.row.id };
      this.#parts.log.warn(fields, "cannot determine whether a session was recorded; will retry");
    });
  }

  /** Called by the reaper. */
  async tidy(): Promise<void> {
    for (const id of this.#left.keys()) await this.end(id);
  }

  /** Ends one that the store has. False if there is none with this id. */
  async end(id: string): Promise<boolean> {
    const { store, clock, events, table } = this.#parts;
    const uncertain = this.#left.get(id);
    if (uncertain === undefined) return false;
    const { session, sinceMs } = uncertain;
    const stored = await store.getSession(id);
    if (stored === undefined) {
      if (clock.monotonicMs() - sinceMs > MAX_LATE_MS) this.#left.delete(id);
      return false;
    }
    // Somebody else may have ended it while this call waited.
    if (!this.#left.delete(id)) return true;
    if (stored.status !== "creating" || stored.fence !== session.row.fence) return true;
    table.add(session);
    if (!uncertain.isRecorded) events.record(sessionCreated(session.row));
    uncertain.isRecorded = true;
    try {
      await this.#parts.end(session, "failed", "the store did not confirm it");
    } catch (error) {
      // Once the store has it as `destroying`, the reaper retries.
      if (session.row.status === "creating") {
        table.remove(session);
        this.#left.set(id, uncertain);
      }
      throw error;
    }
    return true;
  }
}
