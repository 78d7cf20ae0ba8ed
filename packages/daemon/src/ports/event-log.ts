/** The port through which events are remembered, in one order for all who read them. */
import type { AnyEventData } from "@sandkasten/protocol";

/** Something that happened, before it has its place in the log. */
export type NewEvent = AnyEventData & {
  readonly atMs: number;
  /** Whose it is; empty for the daemon itself. */
  readonly owner: string;
  readonly sessionId?: string;
};

export type StoredEvent = NewEvent & {
  /** Greater than that of every event before it, for ever. */
  readonly position: number;
};

/** Which events are asked for. */
export interface EventScope {
  /** All owners' when absent. */
  readonly owner?: string;
  readonly sessionId?: string;
  readonly types?: ReadonlySet<string>;
}

export interface EventQuery extends EventScope {
  /** Only those behind this position. */
  readonly after: number;
  /** Events to look at, of whichever type. */
  readonly limit: number;
}

export interface EventPage {
  readonly events: readonly StoredEvent[];
  /** Where the next page begins. */
  readonly position: number;
  /** There is nothing behind this page. */
  readonly isLast: boolean;
  /** The last event of the asked owner that is not kept any more, as it was when the page was read; 0 for none. */
  readonly removedUpTo: number;
}

/** What is kept; whatever passes any of these goes, the oldest first. */
export interface EventRetention {
  readonly maxAgeMs: number;
  readonly maxEventsPerOwner: number;
  /** Of all owners together; the owner with the most loses first. */
  readonly maxEvents: number;
  readonly maxBytes: number;
}

export interface EventLog {
  /** Whether other daemons write to it, too. */
  readonly isShared: boolean;
  /** Tells this log's cursors from those of any other; kept with the log. */
  readonly cursorKey: Uint8Array;
  /**
   * Writes all of them, in this order, or none. When it resolves they survive a kill -9. Whoever has
   * read behind one of them never finds another one before it later.
   */
  append(events: readonly NewEvent[]): Promise<void>;
  read(query: EventQuery): Promise<EventPage>;
  /** The events of a session within so long of its newest one, at most `limit`, the oldest first. */
  latestOf(sessionId: string, withinMs: number, limit: number): Promise<readonly StoredEvent[]>;
  /** The position of the newest event that was ever written; 0 for none. */
  newest(): Promise<number>;
  /** Removes what is beyond the retention, a bounded number at a time; false when more is to be removed. */
  prune(retention: EventRetention, nowMs: number): Promise<boolean>;
  close(): void | Promise<void>;
}
