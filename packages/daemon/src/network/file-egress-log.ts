/** Keeps the newest connection records of each session on disk, and returns them by cursor. */
import { appendFile, mkdir, readdir, readFile, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import type { Log } from "../ports/log.ts";
import type { EgressLog, EgressPage, EgressRecord, NewEgressRecord } from "../ports/egress-log.ts";

/** A session has two files of at most this size; when the newer one is full, it replaces the older one. */
const MAX_FILE_BYTES = 512 * 1024;
/** Records that arrive faster than they are written are dropped and counted. */
const MAX_PENDING = 512;
const WRITE_INTERVAL_MS = 100;
const MAX_REASON_LENGTH = 300;
/** Records that followers get from memory, about two writes of them. */
const MAX_RECENT = 1_024;

interface EgressLogOptions {
  readonly directory: string;
  readonly log: Log;
}

export class FileEgressLog implements EgressLog {
  readonly #options: EgressLogOptions;
  readonly #sessions = new Map<string, SessionLog>();

  constructor(options: EgressLogOptions) {
    this.#options = options;
  }

  add(sessionId: string, record: NewEgressRecord): void {
    this.#of(sessionId).add(record);
  }

  async read(sessionId: string, after: number, limit: number): Promise<EgressPage> {
    return await this.#of(sessionId).read(after, limit);
  }

  async usedBytes(sessionId: string): Promise<number> {
    return await this.#of(sessionId).usedBytes();
  }

  async *follow(
    sessionId: string,
    after: number,
    limit: number,
    signal: AbortSignal,
  ): AsyncGenerator<EgressPage> {
    const log = this.#of(sessionId);
    using _follower = log.addFollower();
    let cursor = after;
    while (!signal.aborted) {
      // Registered before reading, so no record is missed in between.
      const changed = log.changed(signal);
      const page = await log.read(cursor, limit);
      if (page.records.length > 0 || page.missing > 0) {
        yield page;
        cursor = page.cursor;
      } else await changed;
    }
  }

  async forget(sessionId: string): Promise<void> {
    const log = this.#of(sessionId);
    this.#sessions.delete(sessionId);
    await log.remove();
  }

  /** Removes the records of unknown sessions. */
  async sweep(isKnown: (sessionId: string) => Promise<boolean>): Promise<void> {
    await mkdir(this.#options.directory, { recursive: true, mode: 0o700 });
    const names = await readdir(this.#options.directory);
    for (const id of new Set(names.map((name) => name.replace(/(?:\.older)?\.jsonl$/, ""))))
      if (!(await isKnown(id))) await this.forget(id);
  }

  async flush(): Promise<void> {
    for (const log of this.#sessions.values()) await log.flush();
  }

  #of(sessionId: string): SessionLog {
    let log = this.#sessions.get(sessionId);
    if (log === undefined) {
      log = new SessionLog(sessionId, this.#options);
      this.#sessions.set(sessionId, log);
    }
    return log;
  }
}

class SessionLog {
  readonly #path: string;
  readonly #olderPath: string;
  readonly #options: EgressLogOptions;
  #pending: (NewEgressRecord & { count: number })[] = [];
  #dropped = 0;
  #timer: NodeJS.Timeout | undefined;
  /** Reads and writes happen one after the other. */
  #turn: Promise<unknown> = Promise.resolve();
  /** Of the last written record; unknown before the file was read. */
  #sequence: number | undefined;
  /** Of all records that were written, including those that are no longer kept. */
  #usedBytes = 0;
  #droppedBytes = 0;
  #waiting = new Set<() => void>();
  #followers = 0;
  /** The newest records without a gap, kept while there are followers. */
  #recent: EgressRecord[] = [];
  #readers = 0;
  /** All records that are kept, while there are readers and nothing is written. */
  #kept: readonly EgressRecord[] | undefined;

  constructor(sessionId: string, options: EgressLogOptions) {
    // SECURITY: ids come from the store and contain only letters and digits; other ids get no path.
    if (!/^[\w-]+$/.test(sessionId)) throw new TypeError("not the id of a session");
    this.#path = join(options.directory, `${sessionId}.jsonl`);
    this.#olderPath = join(options.directory, `${sessionId}.older.jsonl`);
    this.#options = options;
  }

  add(record: NewEgressRecord): void {
    const short = { ...record, ...shortened(record.reason) };
    const alike = this.#pending.findLast((other) => isRepeated(other, short));
    if (alike !== undefined) {
      alike.count += 1;
      return;
    }
    if (this.#pending.length >= MAX_PENDING) {
      this.#dropped += 1;
      this.#droppedBytes += record.sentBytes + record.receivedBytes;
    } else this.#pending.push({ ...short, count: 1 });
    this.#timer ??= setTimeout(() => {
      this.flush().catch((error: unknown) => {
        this.#options.log.error({ err: error }, "cannot write the record of connections");
      });
    }, WRITE_INTERVAL_MS).unref();
  }

  /** Until it is disposed of, new records are also kept in memory. */
  addFollower(): Disposable {
    this.#followers += 1;
    return {
      [Symbol.dispose]: () => {
        this.#followers -= 1;
        if (this.#followers === 0) this.#recent = [];
      },
    };
  }

  /**
   * SECURITY: programs in a sandbox write thousands of records, and many readers would each parse all of
   * them, followers even at every change. Followers get the newest from memory, and concurrent readers
   * share what was parsed (threat: oversized requests). Guarded by file-egress-log.test.ts.
   */
  async read(after: number, limit: number): Promise<EgressPage> {
    this.#readers += 1;
    try {
      return await this.#inTurn(() => this.#page(after, limit));
    } finally {
      this.#readers -= 1;
      if (this.#readers === 0) this.#kept = undefined;
    }
  }

  async #page(after: number, limit: number): Promise<EgressPage> {
    await this.#write();
    const isRecent = after + 1 >= (this.#recent[0]?.sequence ?? Infinity);
    const all = isRecent ? this.#recent : await this.#all();
    const start = all.findIndex(({ sequence }) => sequence > after);
    const records = start === -1 ? [] : all.slice(start, start + limit);
    const last = this.#sequence ?? 0;
    const first = records[0]?.sequence ?? Math.max(last, after) + 1;
    return {
      records,
      cursor: records.at(-1)?.sequence ?? Math.max(last, after),
      missing: Math.max(0, first - 1 - after),
    };
  }

  async #all(): Promise<readonly EgressRecord[]> {
    this.#kept ??= [...(await readRecords(this.#olderPath)), ...(await readRecords(this.#path))];
    return this.#kept;
  }

  async usedBytes(): Promise<number> {
    return await this.#inTurn(async () => {
      await this.#write();
      return this.#usedBytes;
    });
  }

  /** Resolves at the next change, or when the signal aborts. */
  async changed(signal: AbortSignal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting.add(resolve);
    signal.addEventListener("abort", () => resolve(), { once: true });
    await promise;
    this.#waiting.delete(resolve);
  }

  async flush(): Promise<void> {
    await this.#inTurn(() => this.#write());
  }

  async remove(): Promise<void> {
    await this.#inTurn(async () => {
      this.#pending = [];
      clearTimeout(this.#timer);
      this.#timer = undefined;
      await rm(this.#path, { force: true });
      await rm(this.#olderPath, { force: true });
    });
  }

  async #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#turn.then(work);
    this.#turn = turn.catch(() => undefined);
    return await turn;
  }

  async #write(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#sequence === undefined) {
      const last = await lastRecord(this.#path, this.#olderPath);
      this.#sequence = last?.sequence ?? 0;
      this.#usedBytes = last?.usedBytes ?? 0;
      await endBrokenLine(this.#path);
    }
    const pending = this.#pending;
    const dropped = this.#dropped;
    if (pending.length === 0) return;
    this.#pending = [];
    this.#dropped = 0;
    this.#kept = undefined;
    let sequence = this.#sequence;
    let usedBytes = this.#usedBytes;
    const written: EgressRecord[] = [];
    const lineOf = (record: Omit<EgressRecord, "sequence">, furtherBytes = 0): string => {
      usedBytes += record.sentBytes + record.receivedBytes + furtherBytes;
      const numbered = { sequence: (sequence += 1), ...record };
      written.push(numbered);
      return `${JSON.stringify({ ...numbered, usedBytes })}\n`;
    };
    const lines = pending.map((record) => lineOf(record));
    const last = pending.at(-1);
    if (dropped > 0 && last !== undefined)
      lines.push(lineOf(overflow(last, dropped), this.#droppedBytes));
    this.#droppedBytes = 0;
    await this.#makeRoom();
    await appendFile(this.#path, lines.join(""), { mode: 0o600 });
    this.#sequence = sequence;
    this.#usedBytes = usedBytes;
    if (this.#followers > 0) this.#recent = [...this.#recent, ...written].slice(-MAX_RECENT);
    for (const wake of this.#waiting) wake();
  }

  async #makeRoom(): Promise<void> {
    const size = await stat(this.#path).then(
      (found) => found.size,
      () => undefined,
    );
    if (size === undefined) await mkdir(this.#options.directory, { recursive: true, mode: 0o700 });
    else if (size >= MAX_FILE_BYTES) await rename(this.#path, this.#olderPath);
  }
}

/** As it is stored: with the bytes of the session so far. */
type Written = EgressRecord & { readonly usedBytes?: number };

function shortened(reason: string | undefined): { readonly reason?: string } {
  return reason === undefined ? {} : { reason: reason.slice(0, MAX_REASON_LENGTH) };
}

/** Refused programs retry repeatedly; the record must have room for other entries. */
function isRepeated(one: NewEgressRecord, other: NewEgressRecord): boolean {
  return (
    one.verdict === "refused" &&
    other.verdict === "refused" &&
    other.sentBytes + other.receivedBytes === 0 &&
    one.name === other.name &&
    one.address === other.address &&
    one.port === other.port &&
    one.via === other.via &&
    one.reason === other.reason
  );
}

/** Says that more happened than could be recorded. */
function overflow(last: NewEgressRecord, dropped: number): Omit<EgressRecord, "sequence"> {
  return {
    startedAtMs: last.startedAtMs,
    endedAtMs: last.endedAtMs,
    via: last.via,
    verdict: "refused",
    reason: `${dropped} more attempts came too quickly to be recorded one by one`,
    sentBytes: 0,
    receivedBytes: 0,
    count: dropped,
  };
}

async function readRecords(path: string): Promise<EgressRecord[]> {
  return (await readWritten(path)).map((written) => {
    const { usedBytes: _, ...record } = written;
    return record;
  });
}

async function readWritten(path: string): Promise<Written[]> {
  const text = await textOf(path);
  return text.split("\n").flatMap((entry) => recordIn(entry) ?? []);
}

async function textOf(path: string): Promise<string> {
  return await readFile(path, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return "";
    throw error;
  });
}

/** Skips a line that a killed daemon left incomplete. */
function recordIn(entry: string): Written | undefined {
  if (entry === "") return undefined;
  try {
    return JSON.parse(entry) as Written;
  } catch {
    return undefined;
  }
}

/** An incomplete line of a killed daemon must not damage the next one. */
async function endBrokenLine(path: string): Promise<void> {
  const text = await textOf(path);
  if (text !== "" && !text.endsWith("\n")) await appendFile(path, "\n");
}

async function lastRecord(...paths: readonly string[]): Promise<Written | undefined> {
  for (const path of paths) {
    const last = (await readWritten(path)).at(-1);
    if (last !== undefined) return last;
  }
  return undefined;
}
