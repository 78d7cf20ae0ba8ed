/** One open database: statements are prepared once, writes get the space they need, failures are translated. */
import { statfsSync } from "node:fs";
import { dirname } from "node:path";
import type { DatabaseSync, SQLInputValue } from "node:sqlite";
import type { Log } from "../../ports/log.ts";
import { DiskReserve } from "./disk-reserve.ts";
import { IN_MEMORY, openDatabase } from "./open-database.ts";
import { PreparedStatements } from "./prepared-statements.ts";
import type { StoredRow } from "../row-mapping.ts";
import { isOutOfSpace, isSqliteKind, SQLITE, storageFull, storeFailure } from "./store-failure.ts";
import { inTransaction } from "./transaction.ts";

/** `changes` may use the reserved space; `adds` is refused while that space is used up. */
export type WriteKind = "adds" | "changes";

/** The log is checkpointed when it reaches this size. */
const LARGEST_LOG_BYTES = 4 * 1024 * 1024;
const SMALLEST_LOG_BYTES = 128 * 1024;
/** The share of a disk that the log may use. */
const LOG_SHARE = 1 / 32;
/** How much the log may exceed that, and rows may grow as their sessions end. */
const GROWTH_BYTES = 512 * 1024;

/** Free pages kept for new rows, and how many are released in one transaction. */
const SPARE_PAGES = 64;
const SHRUNK_AT_ONCE_PAGES = 256;

export class SessionDatabase {
  readonly isNew: boolean;
  readonly #path: string;
  readonly #database: DatabaseSync;
  readonly #reserve: DiskReserve | undefined;
  readonly #statements: PreparedStatements;

  private constructor(
    path: string,
    database: DatabaseSync,
    isNew: boolean,
    reserve: DiskReserve | undefined,
  ) {
    this.#path = path;
    this.#database = database;
    this.#statements = new PreparedStatements(database);
    this.isNew = isNew;
    this.#reserve = reserve;
  }

  static async open(path: string, log?: Log): Promise<SessionDatabase> {
    const { database, isNew } = await openDatabase(path);
    if (path === IN_MEMORY) return new SessionDatabase(path, database, isNew, undefined);
    try {
      const reserve = limitLog(database, path);
      if (!reserve.hold()) log?.warn({ path }, "the disk has no space for new sessions");
      return new SessionDatabase(path, database, isNew, reserve);
    } catch (error) {
      database.close();
      throw storeFailure(error, path, "opening it");
    }
  }

  /** From now on it does not count as new, even when reopened. */
  settle(): void {
    if (!this.isNew) return;
    this.write("changes", "settling", () => this.run("PRAGMA application_id = 0"));
  }

  rows(sql: string, ...values: readonly SQLInputValue[]): StoredRow[] {
    // Not get(), which stops at the first row: with RETURNING, a change takes effect when the
    // statement completes, and get() swallows a failure of that.
    return this.#statements.of(sql).all(...values);
  }

  /** Returns how many rows changed. */
  run(sql: string, ...values: readonly SQLInputValue[]): number {
    return Number(this.#statements.of(sql).run(...values).changes);
  }

  read<T>(doing: string, work: () => T): T {
    try {
      return work();
    } catch (error) {
      throw storeFailure(error, this.#path, doing);
    }
  }

  /** `work` is one write statement and what belongs to it, or a transaction; on a full disk it is retried after making room. */
  write<T>(kind: WriteKind, doing: string, work: () => T): T {
    return this.read(doing, () => {
      if (kind === "adds" && this.#reserve?.hold() === false) throw storageFull(doing);
      for (const makeRoom of this.#waysToMakeRoom(kind)) {
        try {
          return work();
        } catch (error) {
          if (!this.#isOutOfSpace(error)) throw error;
          makeRoom();
        }
      }
      return work();
    });
  }

  /** Commits everything, or nothing. */
  transaction<T>(work: () => T): T {
    return inTransaction(this.#database, (sql) => this.run(sql), work);
  }

  /** Releases free pages to the disk, a few at a time; false if hardly any are left. */
  shrink(): boolean {
    return this.write("changes", "shrinking", () => {
      const [{ freelist_count: free } = {}] = this.rows("PRAGMA freelist_count");
      if (Number(free) <= SPARE_PAGES) return false;
      this.rows(`PRAGMA incremental_vacuum(${String(SHRUNK_AT_ONCE_PAGES)})`);
      this.#emptyLog();
      const [{ freelist_count: left } = {}] = this.rows("PRAGMA freelist_count");
      return Number(left) < Number(free);
    });
  }

  close(): void {
    if (this.#database.isOpen) this.#database.close();
  }

  #waysToMakeRoom(kind: WriteKind): (() => void)[] {
    const ways = [() => this.#emptyLog()];
    if (kind === "changes") {
      ways.push(() => {
        this.#reserve?.giveUp();
        this.#emptyLog();
      });
    }
    return ways;
  }

  /**
   * Checkpoints the log into the database, which usually has space already; later changes then
   * overwrite the log from its start.
   */
  #emptyLog(): void {
    try {
      this.rows("PRAGMA wal_checkpoint(PASSIVE)");
    } catch (error) {
      // The database has to grow for it, too; the caller's next try tells whether anything was won.
      if (!this.#isOutOfSpace(error)) throw error;
    }
  }

  /** A quota that is used up is an input or output error to SQLite. */
  #isOutOfSpace(error: unknown): boolean {
    if (isOutOfSpace(error)) return true;
    return isSqliteKind(error, SQLITE.IOERR) && this.#reserve?.isDiskFull() === true;
  }
}

/**
 * Limits the log, and returns a reserve that the whole log fits into, even if every page of it is
 * new to the database: once the reserve is released, the log can always be checkpointed.
 */
function limitLog(database: DatabaseSync, path: string): DiskReserve {
  const { blocks, bsize } = statfsSync(dirname(path));
  const share = Math.floor(blocks * bsize * LOG_SHARE);
  const logBytes = Math.max(SMALLEST_LOG_BYTES, Math.min(LARGEST_LOG_BYTES, share));
  const reserveBytes = logBytes + GROWTH_BYTES;
  const pageBytes = Number(database.prepare("PRAGMA page_size").get()?.["page_size"]);
  database.exec(`
    PRAGMA wal_autocheckpoint = ${String(Math.floor(logBytes / pageBytes))};
    PRAGMA journal_size_limit = ${String(reserveBytes)};
  `);
  return new DiskReserve(`${path}.reserve`, reserveBytes);
}
