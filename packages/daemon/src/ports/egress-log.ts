/** The port through which the core records where a session's programs connected to. */

export type EgressVerdict = "allowed" | "refused" | "failed";

/** A connection that has ended, or was never opened. */
export interface EgressRecord {
  /** Increases within the session from 1; the cursor for pagination. */
  readonly sequence: number;
  readonly startedAtMs: number;
  readonly endedAtMs: number;
  /** How the program asked; `dns` for a name that was queried and not resolved. */
  readonly via: "transparent" | "connect" | "http" | "socks5" | "dns";
  readonly name?: string;
  /** The address that was connected to, or requested. */
  readonly address?: string;
  /** Absent if only a name was queried. */
  readonly port?: number;
  readonly verdict: EgressVerdict;
  /** Why the connection was refused or failed. */
  readonly reason?: string;
  /** As seen from the sandbox. */
  readonly sentBytes: number;
  readonly receivedBytes: number;
  /** How many attempts this record stands for; identical refusals are merged. */
  readonly count: number;
}

/** Records after a cursor, in order. */
export interface EgressPage {
  readonly records: readonly EgressRecord[];
  /** For the next page. */
  readonly cursor: number;
  /** How many records between the cursor and the first record here have been discarded. */
  readonly missing: number;
}

/** Totals of all sessions since the daemon started, for metrics. */
export interface EgressCounts {
  readonly open: number;
  readonly connections: Readonly<Record<EgressVerdict, number>>;
  readonly sentBytes: number;
  readonly receivedBytes: number;
}

/** A record as an observer sees it; the log assigns its number. */
export type NewEgressRecord = Omit<EgressRecord, "sequence" | "count">;

/** Keeps a limited number of records for each session, the newest. */
export interface EgressLog {
  /** Returns at once. */
  add(sessionId: string, record: NewEgressRecord): void;
  read(sessionId: string, after: number, limit: number): Promise<EgressPage>;
  /**
   * Bytes in both directions of all ended connections of a session, including discarded records.
   */
  usedBytes(sessionId: string): Promise<number>;
  /** Yields pages from a cursor on, as they arrive, until the signal aborts. */
  follow(
    sessionId: string,
    after: number,
    limit: number,
    signal: AbortSignal,
  ): AsyncIterable<EgressPage>;
  /** Removes all records of a session. */
  forget(sessionId: string): Promise<void>;
  /** Resolves when all records are written. */
  flush(): Promise<void>;
}
