/** Lets the ends of commands wait for a moment, so they share a transaction with others. */
import { lostOwnership } from "../../ports/lost-ownership.ts";
import type { ExecPatch } from "../../ports/session-store.ts";
import type { SessionDatabase } from "./session-database.ts";

/** How long an end may wait. Until it is written, the sandbox knows it. */
const WAIT_MS = 20;
/** The maximum number of ends in a transaction. */
const MAX_AT_ONCE = 256;

export interface ExecEnd {
  readonly sessionId: string;
  readonly id: string;
  readonly fence: number;
  readonly patch: ExecPatch;
}

interface WaitingEnd extends ExecEnd {
  readonly outcome: PromiseWithResolvers<void>;
}

export class ExecEnds {
  readonly #database: SessionDatabase;
  /** Writes one; false if its session is served with another token. */
  readonly #change: (end: ExecEnd) => boolean;
  #waiting: WaitingEnd[] = [];
  #timer: NodeJS.Timeout | undefined;

  constructor(database: SessionDatabase, change: (end: ExecEnd) => boolean) {
    this.#database = database;
    this.#change = change;
  }

  /** Resolves when the end is written. */
  async write(end: ExecEnd): Promise<void> {
    const outcome = Promise.withResolvers<void>();
    this.#waiting.push({ ...end, outcome });
    if (this.#waiting.length >= MAX_AT_ONCE) this.flush();
    else this.#timer ??= setTimeout(() => this.#timeOver(), WAIT_MS);
    await outcome.promise;
  }

  /** Writes what waits in the transaction of `insert`, or before it if that fails. */
  insert<T>(insert: () => T): T {
    const doing = "adding a command";
    const ends = this.#waiting;
    if (ends.length > 0)
      try {
        const together = (): readonly [readonly boolean[], T] => [ends.map(this.#change), insert()];
        const [served, inserted] = this.#database.write("adds", doing, () =>
          this.#database.transaction(together),
        );
        this.#waiting = [];
        settle(ends, served);
        return inserted;
      } catch {
        // Nothing was written. What failed fails again alone, and only that.
        this.flush();
      }
    return this.#database.write("adds", doing, insert);
  }

  /** Writes what waits. Never throws: those who wait for their ends learn of a failure. */
  flush(): void {
    const ends = this.#waiting;
    this.#waiting = [];
    if (ends.length > 0) this.#write(ends);
  }

  /** Call before the database is closed. */
  close(): void {
    clearTimeout(this.#timer);
    this.flush();
  }

  #timeOver(): void {
    this.#timer = undefined;
    this.flush();
  }

  /**
   * SECURITY: sandboxes supply parts of an end, and sessions of several owners share a transaction.
   * If it fails, each end is retried alone, so no tenant's end fails another's (threat: reaching
   * another tenant). Guarded by exec-ends.test.ts.
   */
  #write(ends: readonly WaitingEnd[]): void {
    const change = (): readonly boolean[] => ends.map(this.#change);
    try {
      const served = this.#database.write("changes", "changing commands", () =>
        ends.length === 1 ? change() : this.#database.transaction(change),
      );
      settle(ends, served);
    } catch (error) {
      if (ends.length === 1) ends[0]?.outcome.reject(error);
      else for (const end of ends) this.#write([end]);
    }
  }
}

function settle(ends: readonly WaitingEnd[], served: readonly boolean[]): void {
  for (const [at, { sessionId, outcome }] of ends.entries())
    if (served[at] === true) outcome.resolve();
    else outcome.reject(lostOwnership(sessionId));
}
