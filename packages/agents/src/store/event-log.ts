/** The events of agent runs and workflow runs: appended once, replayed from any point, followed live. */
import { EventEmitter } from "node:events";
import type { DatabaseSync, StatementSync } from "node:sqlite";
import type { Migration } from "./database.ts";

export interface RunEvent {
  /** Starts at 1 in each run, without gaps. */
  readonly seq: number;
  /** ISO 8601. */
  readonly time: string;
  readonly type: string;
  readonly data: object;
}

export const EVENT_MIGRATIONS: readonly Migration[] = [
  {
    name: "events-1",
    sql: `
      CREATE TABLE run_events (
        run_id TEXT NOT NULL,
        seq INTEGER NOT NULL,
        time TEXT NOT NULL,
        type TEXT NOT NULL,
        data TEXT NOT NULL,
        PRIMARY KEY (run_id, seq)
      ) STRICT, WITHOUT ROWID;
    `,
  },
];

export interface EventLogOptions {
  /** How often to poll for events of other processes. Events of this process are seen at once. */
  readonly pollIntervalMs?: number;
}

const DEFAULT_POLL_INTERVAL_MS = 200;
/** How many events a follower holds in memory at once. */
const PAGE_SIZE = 20;

export class EventLog {
  readonly #insert: StatementSync;
  readonly #select: StatementSync;
  readonly #pollIntervalMs: number;
  readonly #appended = new EventEmitter().setMaxListeners(0);

  constructor(database: DatabaseSync, options: EventLogOptions = {}) {
    this.#insert = database.prepare(`
      INSERT INTO run_events (run_id, seq, time, type, data)
      SELECT :run, coalesce(max(seq), 0) + 1, :time, :type, :data FROM run_events WHERE run_id = :run
      RETURNING seq
    `);
    this.#select = database.prepare(`
      SELECT seq, time, type, data FROM run_events
      WHERE run_id = ? AND seq > ? ORDER BY seq LIMIT ?
    `);
    this.#pollIntervalMs = options.pollIntervalMs ?? DEFAULT_POLL_INTERVAL_MS;
  }

  append(runId: string, type: string, data: object): RunEvent {
    const time = new Date().toISOString();
    const row = this.#insert.get({ run: runId, time, type, data: JSON.stringify(data) });
    this.#appended.emit(eventName(runId));
    return { seq: Number(row?.["seq"]), time, type, data };
  }

  /** At most `limit` events after `afterSeq`, oldest first. */
  read(runId: string, afterSeq: number, limit: number): RunEvent[] {
    return this.#select.all(runId, afterSeq, limit).map(({ seq, time, type, data }) => ({
      seq: Number(seq),
      time: String(time),
      type: String(type),
      data: JSON.parse(String(data)) as object,
    }));
  }

  /**
   * All events after `afterSeq`, then new ones as they arrive, also those of other processes. Ends
   * when the signal fires, or when `isOver` says that no further event will come and all were seen.
   * Events are read when the caller requests the next one: a slow reader costs one page of memory.
   */
  async *follow(
    runId: string,
    afterSeq: number,
    signal: AbortSignal,
    isOver: () => boolean = () => false,
  ): AsyncGenerator<RunEvent, void, undefined> {
    let last = afterSeq;
    while (!signal.aborted) {
      // Subscribes before reading, so that an event in between is not missed.
      const waiting = this.#nextAppend(runId, signal);
      try {
        const over = isOver();
        const page = this.read(runId, last, PAGE_SIZE);
        for (const event of page) {
          if (signal.aborted) return;
          yield event;
          last = event.seq;
        }
        if (page.length > 0) continue;
        if (over) return;
        await waiting.promise;
      } finally {
        waiting.stop();
      }
    }
  }

  #nextAppend(runId: string, signal: AbortSignal): { promise: Promise<void>; stop: () => void } {
    const { promise, resolve } = Promise.withResolvers<void>();
    const wake = (): void => resolve();
    const timer = setTimeout(wake, this.#pollIntervalMs);
    this.#appended.once(eventName(runId), wake);
    signal.addEventListener("abort", wake, { once: true });
    return {
      promise,
      stop: () => {
        clearTimeout(timer);
        this.#appended.off(eventName(runId), wake);
        signal.removeEventListener("abort", wake);
      },
    };
  }
}

/** Never "error", which an EventEmitter throws if there is no listener. */
function eventName(runId: string): string {
  return `run ${runId}`;
}
