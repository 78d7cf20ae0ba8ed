/** Tells live processes from dead ones among those that share the database. */
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import type { DatabaseSync, StatementSync } from "node:sqlite";
import type { Migration } from "./database.ts";

export const PROCESS_MIGRATIONS: readonly Migration[] = [
  {
    name: "processes-1",
    sql: `
      CREATE TABLE processes (
        process_id TEXT PRIMARY KEY,
        boot_id TEXT NOT NULL,
        beat_ms REAL NOT NULL
      ) STRICT;
    `,
  },
];

const BEAT_INTERVAL_MS = 3_000;
/** Other processes consider a process dead that has not written for this long. */
const DEAD_AFTER_MS = 15_000;
/** Rows of processes that died this long ago are useless: an absent process counts as dead. */
const FORGET_AFTER_MS = 24 * 60 * 60_000;

export interface ProcessRegistryOptions {
  readonly beatIntervalMs?: number | undefined;
  readonly deadAfterMs?: number | undefined;
  /** Milliseconds since the boot of the machine, the same in all processes. */
  readonly now?: (() => number) | undefined;
  /** Called if a heartbeat could not be written; the next one may succeed. */
  readonly onFailure?: ((error: unknown) => void) | undefined;
}

/**
 * Times are counted since boot, because wall clocks jump; a row from another boot belongs to a dead
 * process.
 */
export class ProcessRegistry {
  /** The id of this process, which its runs name. */
  readonly id = `prc_${randomUUID()}`;
  readonly #bootId = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
  readonly #write: StatementSync;
  readonly #othersAlive: StatementSync;
  readonly #forget: StatementSync;
  readonly #remove: StatementSync;
  readonly #now: () => number;
  readonly #deadAfterMs: number;
  readonly #beatIntervalMs: number;
  readonly #whenStalled: (() => void)[] = [];
  readonly #onFailure: (error: unknown) => void;
  #timer: NodeJS.Timeout | undefined;
  #lastBeatMs: number;

  constructor(database: DatabaseSync, options: ProcessRegistryOptions = {}) {
    this.#now = options.now ?? (() => Number(process.hrtime.bigint()) / 1e6);
    this.#deadAfterMs = options.deadAfterMs ?? DEAD_AFTER_MS;
    this.#beatIntervalMs = options.beatIntervalMs ?? BEAT_INTERVAL_MS;
    this.#onFailure = options.onFailure ?? (() => undefined);
    this.#write = database.prepare(`
      INSERT INTO processes (process_id, boot_id, beat_ms) VALUES (:id, :boot, :now)
      ON CONFLICT (process_id) DO UPDATE SET beat_ms = excluded.beat_ms
    `);
    this.#othersAlive = database.prepare(
      "SELECT process_id FROM processes WHERE boot_id = ? AND beat_ms > ? AND process_id <> ?",
    );
    this.#forget = database.prepare("DELETE FROM processes WHERE boot_id <> ? OR beat_ms < ?");
    this.#remove = database.prepare("DELETE FROM processes WHERE process_id = ?");
    this.#lastBeatMs = this.#now();
    this.#beat();
    this.#forget.run(this.#bootId, this.#now() - FORGET_AFTER_MS);
  }

  /** Starts writing the heartbeat. */
  start(): void {
    this.#timer ??= setInterval(() => {
      try {
        this.beat();
      } catch (error) {
        this.#onFailure(error);
      }
    }, this.#beatIntervalMs).unref();
  }

  /**
   * Called after this process was stalled for so long that others considered it dead. They may have
   * taken some of its runs, which it must find and stop; it still owns the others.
   */
  onStall(findLostRuns: () => void): void {
    this.#whenStalled.push(findLostRuns);
  }

  /**
   * The ids of all live processes. A run of any other process is abandoned. This process counts as
   * alive even before its first heartbeat after a stall.
   */
  alive(): readonly string[] {
    const others = this.#othersAlive.all(this.#bootId, this.#now() - this.#deadAfterMs, this.id);
    return [this.id, ...others.map(({ process_id: id }) => String(id))];
  }

  beat(): void {
    const silentMs = this.#now() - this.#lastBeatMs;
    // Written first: from here on, no other process takes further runs.
    this.#beat();
    if (silentMs >= this.#deadAfterMs) for (const findLostRuns of this.#whenStalled) findLostRuns();
  }

  /** Records that this process ends, so that others need not wait for its heartbeat to time out. */
  stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.#remove.run(this.id);
  }

  #beat(): void {
    const now = this.#now();
    this.#write.run({ id: this.id, boot: this.#bootId, now });
    this.#lastBeatMs = now;
  }
}
