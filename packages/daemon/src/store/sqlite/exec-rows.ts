/** The table of commands. */
import type { Log } from "../../ports/log.ts";
import { lostOwnership } from "../../ports/lost-ownership.ts";
import type { Admitted, ExecPatch, ExecRow, Page } from "../../ports/session-store.ts";
import { execMapping, HOLDS_KEY } from "../row-mappings.ts";
import { ExecEnds } from "./exec-ends.ts";
import type { ExecEnd } from "./exec-ends.ts";
import type { SessionDatabase } from "./session-database.ts";
import { Table } from "./table.ts";
import type { PageRequest } from "./table.ts";
import { UnfinishedExecs } from "./unfinished-execs.ts";

const IS_SERVED = "SELECT 1 FROM sessions WHERE id = ? AND fence = ?";
const MAY_CHANGE = `session_id = ? AND id = ? AND EXISTS (${IS_SERVED})`;
const IF_SERVED = "FROM sessions WHERE id = ? AND fence = ?";

export class ExecRows {
  readonly #database: SessionDatabase;
  readonly #table: Table<ExecRow>;
  readonly #ends: ExecEnds;
  readonly #unfinished: UnfinishedExecs;

  constructor(database: SessionDatabase, log: Log | undefined) {
    this.#database = database;
    this.#table = new Table(database, execMapping, log);
    this.#ends = new ExecEnds(database, (end) => this.#change(end));
    this.#unfinished = new UnfinishedExecs(database);
  }

  insert(row: ExecRow, fence: number, maxRunning: number): Admitted<ExecRow> {
    const { id, sessionId, owner, idempotencyKey } = row;
    const hasRoom = this.#unfinished.count(owner) < maxRunning;
    const admitted = this.#ends.insert((): Admitted<ExecRow> => {
      if (hasRoom && this.#table.insertGiven(row, IF_SERVED, sessionId, fence))
        return { inserted: true };
      const existing = this.#ofIdempotencyKey(sessionId, idempotencyKey);
      if (existing !== undefined) return { inserted: false, existing };
      if (!this.#isServed(sessionId, fence)) throw lostOwnership(sessionId);
      if (this.#table.first("session_id = ? AND id = ?", sessionId, id) !== undefined)
        throw new Error(`the id ${id} is taken`);
      return { inserted: false, overQuota: true };
    });
    if ("inserted" in admitted && admitted.inserted && row.status !== "done")
      this.#unfinished.add(row);
    return admitted;
  }

  /** A command's end waits a moment for others; everything that reads commands writes it before. */
  async update(sessionId: string, id: string, fence: number, patch: ExecPatch): Promise<void> {
    const change = { sessionId, id, fence, patch };
    if (patch.status === "done") return await this.#end(change);
    this.#ends.flush();
    const isServed = this.#database.write("changes", "changing a command", () =>
      this.#change(change),
    );
    if (!isServed) throw lostOwnership(sessionId);
  }

  /** It no longer counts, unless its end cannot be written. */
  async #end(end: ExecEnd): Promise<void> {
    const counted = this.#unfinished.remove(end.sessionId, end.id);
    try {
      await this.#ends.write(end);
    } catch (error) {
      if (counted !== undefined) this.#unfinished.add(counted);
      throw error;
    }
  }

  /** Call when sessions were deleted. */
  forget(sessionIds: readonly string[]): void {
    this.#unfinished.forget(sessionIds);
  }

  /** Writes the ends that wait. */
  flush(): void {
    this.#ends.flush();
  }

  close(): void {
    this.#ends.close();
  }

  /** False if its session is served with another token. */
  #change({ sessionId, id, fence, patch }: ExecEnd): boolean {
    const isChanged = this.#table.change(patch, MAY_CHANGE, sessionId, id, sessionId, fence);
    return isChanged || this.#isServed(sessionId, fence);
  }

  #isServed(sessionId: string, fence: number): boolean {
    return this.#database.rows(IS_SERVED, sessionId, fence).length > 0;
  }

  get(sessionId: string, id: string): ExecRow | undefined {
    return this.#read("reading a command", () =>
      this.#table.first("session_id = ? AND id = ?", sessionId, id),
    );
  }

  findByIdempotencyKey(sessionId: string, key: string): ExecRow | undefined {
    return this.#read("reading a command", () => this.#ofIdempotencyKey(sessionId, key));
  }

  list(sessionId: string, page: PageRequest): Page<ExecRow> {
    const conditions = [{ sql: "session_id = ?", values: [sessionId] }];
    return this.#read("listing commands", () =>
      this.#table.page({ id: "string" }, conditions, page),
    );
  }

  unfinished(fence: number): ExecRow[] {
    return this.#read("reading the unfinished commands", () =>
      this.#table.all(
        `WHERE status <> 'done' AND session_id IN (SELECT id FROM sessions WHERE fence = ?)
         ORDER BY status = 'queued', started_at_ms, id`,
        fence,
      ),
    );
  }

  countAfter({ sessionId, id, startedAtMs }: ExecRow): number {
    return this.#read("counting commands", () => {
      const [counted] = this.#database.rows(
        "SELECT count(*) AS n FROM execs WHERE session_id = ? AND id <> ? AND (id > ? OR ended_at_ms IS NULL OR ended_at_ms >= ?)",
        sessionId,
        id,
        id,
        startedAtMs,
      );
      return Number(counted?.["n"]);
    });
  }

  #read<T>(doing: string, work: () => T): T {
    this.#ends.flush();
    return this.#database.read(doing, work);
  }

  #ofIdempotencyKey(sessionId: string, key: string | undefined): ExecRow | undefined {
    if (key === undefined) return undefined;
    const where = `session_id = ? AND idempotency_key = ? AND ${HOLDS_KEY}`;
    return this.#table.first(where, sessionId, key);
  }
}
