/** The port through which the core remembers where the programs of a session connected to. */

export type EgressVerdict = "allowed" | "refused" | "failed";

/** One connection that has ended, or was never made. */
export interface EgressRecord {
  /** Counts up within the session, beginning with 1; the cursor of pages. */
  readonly sequence: number;
  readonly startedAtMs: number;
  readonly endedAtMs: number;
  /** How the program asked; `dns` for a name that was asked for and not resolved. */
  readonly via: "transparent" | "connect" | "http" | "socks5" | "dns";
  readonly name?: string;
  /** What was connected to, or asked for. */
  readonly address?: string;
  /** Absent where only a name was asked for. */
  readonly port?: number;
  readonly verdict: EgressVerdict;
  /** Why it was refused or failed. */
  readonly reason?: string;
  /** As seen from the sandbox. */
  readonly sentBytes: number;
  readonly receivedBytes: number;
  /** How many attempts this stands for; several that were refused alike become one. */
  readonly count: number;
}

/** Records after a cursor, in order. */
export interface EgressPage {
  readonly records: readonly EgressRecord[];
  /** For the next page. */
  readonly cursor: number;
  /** How many records between the cursor and the first one here are not kept any more. */
  readonly missing: number;
}

/** Of all sessions since the daemon's start, for metrics. */
export interface EgressCounts {
  readonly open: number;
  readonly connections: Readonly<Record<EgressVerdict, number>>;
  readonly sentBytes: number;
  readonly receivedBytes: number;
}

/** A record as an observer sees it; its number is the log's to give. */
export type NewEgressRecord = Omit<EgressRecord, "sequence" | "count">;

/** Keeps so many records of each session, the newest. */
export interface EgressLog {
  /** Returns at once. */
  add(sessionId: string, record: NewEgressRecord): void;
  read(sessionId: string, after: number, limit: number): Promise<EgressPage>;
  /** Bytes of all connections of a session that have ended, both ways together, also of those that are not kept. */
  usedBytes(sessionId: string): Promise<number>;
  /** Pages from a cursor on, as they come, until the signal aborts. */
  follow(
    sessionId: string,
    after: number,
    limit: number,
    signal: AbortSignal,
  ): AsyncIterable<EgressPage>;
  /** Removes all that is kept of a session. */
  forget(sessionId: string): Promise<void>;
  /** Resolves when everything is written. */
  flush(): Promise<void>;
}
