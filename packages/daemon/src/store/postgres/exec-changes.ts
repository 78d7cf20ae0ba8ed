/** Writes changes of commands, those of several commands in one statement. */
import { lostOwnership } from "../../ports/lost-ownership.ts";
import type { ExecPatch } from "../../ports/session-store.ts";
import { execMapping } from "../row-mappings.ts";
import type { Database } from "./database.ts";

/** How long an end may wait for others. Until it is written, the sandbox knows it. */
const WAIT_MS = 20;
/** The maximum number of changes in a statement. */
const MAX_AT_ONCE = 256;

interface Change {
  readonly sessionId: string;
  readonly id: string;
  readonly fence: number;
  readonly patch: ExecPatch;
}

interface WaitingChange extends Change {
  readonly outcome: PromiseWithResolvers<void>;
}

export class ExecChanges {
  readonly #database: Database;
  /** By session and command. */
  readonly #waiting = new Map<string, WaitingChange>();
  #flushed = Promise.resolve();
  #timer: NodeJS.Timeout | undefined;

  constructor(database: Database) {
    this.#database = database;
  }

  get areWaiting(): boolean {
    return this.#waiting.size > 0;
  }

  /** Resolves when the change is written. A command's end waits a moment for other ends. */
  async write(change: Change): Promise<void> {
    const { sessionId, id, fence } = change;
    const name = `${sessionId}/${id}/${fence}`;
    const earlier = this.#waiting.get(name);
    const outcome = earlier?.outcome ?? Promise.withResolvers<void>();
    const patch = { ...earlier?.patch, ...change.patch };
    this.#waiting.set(name, { sessionId, id, fence, patch, outcome });
    if (change.patch.status !== "done" || this.#waiting.size >= MAX_AT_ONCE) void this.flush();
    else this.#timer ??= setTimeout(() => void this.flush(), WAIT_MS);
    await outcome.promise;
  }

  /**
   * Resolves when what waits is sent, and what was sent before is written: one statement after the
   * other, so no change overtakes an earlier one of the same command. Never rejects: those who wait
   * for their changes learn of a failure.
   */
  async flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const earlier = this.#flushed;
    this.#flushed = (async () => {
      await earlier;
      await this.#sendWaiting();
    })();
    await this.#flushed;
  }

  async #sendWaiting(): Promise<void> {
    if (this.#waiting.size === 0) return;
    const batch = [...this.#waiting.values()];
    this.#waiting.clear();
    await this.#send(batch);
  }

  /**
   * SECURITY: sandboxes supply parts of a change, and sessions of several owners share a statement.
   * If it fails, each change is retried alone, so no tenant's change fails another's (threat:
   * reaching another tenant). Guarded by exec-changes.test.ts.
   */
  async #send(batch: readonly WaitingChange[]): Promise<void> {
    let served: ReadonlySet<number>;
    try {
      served = await this.#change(batch);
    } catch (error) {
      if (batch.length === 1) batch[0]?.outcome.reject(error);
      else for (const change of batch) await this.#send([change]);
      return;
    }
    for (const [at, { sessionId, outcome }] of batch.entries())
      if (served.has(at)) outcome.resolve();
      else outcome.reject(lostOwnership(sessionId));
  }

  /** Answers which of the changes are of sessions that this daemon serves. */
  async #change(batch: readonly Change[]): Promise<ReadonlySet<number>> {
    const given = recordsOf(batch);
    const { rows } = await this.#database.run("changing commands", CHANGE, [given]);
    return new Set(rows.map(({ at }) => Number(at)));
  }
}

function recordsOf(changes: readonly Change[]): string {
  const records = changes.map(({ sessionId, id, fence, patch }, at) => ({
    at,
    session_id: sessionId,
    id,
    fence,
    patch: execMapping.changes(patch),
  }));
  return JSON.stringify(records);
}

/** Sets the columns that a patch names. */
function setTo(patch: string): string {
  const { columns } = execMapping;
  return `(${columns}) = (SELECT ${columns} FROM jsonb_populate_record(execs, ${patch}))`;
}

/**
 * Sessions are locked while their commands are changed, so a claim happens before or after. They are
 * found by an array that a subquery builds: Postgres uses the index however many sessions there are,
 * with one plan for arrays of any length.
 */
const CHANGE = `
  WITH given AS (
    SELECT * FROM jsonb_to_recordset($1::jsonb)
      AS change (at BIGINT, session_id TEXT, id TEXT, fence BIGINT, patch JSONB)
  ), served AS (
    SELECT id, fence FROM sessions WHERE id = ANY (ARRAY(SELECT session_id FROM given))
    ORDER BY id FOR SHARE
  ), allowed AS (
    SELECT given.* FROM given JOIN served ON served.id = given.session_id AND served.fence = given.fence
  ), changed AS (
    UPDATE execs SET ${setTo("allowed.patch")} FROM allowed
    WHERE execs.session_id = allowed.session_id AND execs.id = allowed.id
  )
  SELECT at FROM allowed`;
