/** The port that stores events, in one order for all readers. */
import type { AnyEventData } from "@sandkasten/protocol";

/** An event before it has a position in the log. */
export type NewEvent = AnyEventData & {
  readonly atMs: number;
  /** The owner; empty for the daemon itself. */
  readonly owner: string;
  readonly sessionId?: string;
};

export type StoredEvent = NewEvent & {
  /** Greater than the position of every earlier event, even removed ones. */
  readonly position: number;
};

/** Which events are asked for. */
export interface EventScope {
  /** All owners when absent. */
  readonly owner?: string;
  readonly sessionId?: string;
  readonly types?: ReadonlySet<string>;
}

export interface EventQuery extends EventScope {
  /** Only events after this position. */
  readonly after: number;
  /** How many events to examine, of any type. */
  readonly limit: number;
}

export interface EventPage {
  readonly events: readonly StoredEvent[];
  /** Where the next page begins. */
  readonly position: number;
  /** No events follow this page. */
  readonly isLast: boolean;
  /** The owner's last removed event, as of when the page was read; 0 for none. */
  readonly removedUpTo: number;
}

/** The retention limits; events beyond any of them are removed, oldest first. */
export interface EventRetention {
  readonly maxAgeMs: number;
  readonly maxEventsPerOwner: number;
  /** Across all owners; the owner with the most events loses first. */
  readonly maxEvents: number;
  readonly maxBytes: number;
}

export interface EventLog {
  /** Whether other daemons also write to it. */
  readonly isShared: boolean;
  /** Distinguishes this log's cursors from those of any other log; stored with the log. */
  readonly cursorKey: Uint8Array;
  /**
   * Writes all events in this order, or none. Once it resolves they survive a kill -9. A reader
   * that is past one of them never finds another one before it later.
   */
  append(events: readonly NewEvent[]): Promise<void>;
  read(query: EventQuery): Promise<EventPage>;
  /** The session's events within this time before its newest one, at most `limit`, oldest first. */
  latestOf(sessionId: string, withinMs: number, limit: number): Promise<readonly StoredEvent[]>;
  /** The position of the newest event ever written; 0 for none. */
  newest(): Promise<number>;
  /** Removes events beyond the retention, a bounded number per call; false if more remain. */
  prune(retention: EventRetention, nowMs: number): Promise<boolean>;
  close(): void | Promise<void>;
}
