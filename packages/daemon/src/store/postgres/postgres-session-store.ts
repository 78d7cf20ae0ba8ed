/** Stores sessions, commands and workspaces in a Postgres database, which several daemons may share. */
import type { SessionStatus } from "@sandkasten/protocol";
import { sql } from "kysely";
import type { RawBuilder } from "kysely";
import type { Log } from "../../ports/log.ts";
import { heldForDead } from "../../ports/lost-ownership.ts";
import type {
  Admitted,
  AdmittedSession,
  Claimed,
  ClockReading,
  DaemonRow,
  ExecPatch,
  ExecRow,
  Joined,
  Page,
  SessionFilter,
  SessionPatch,
  SessionRow,
  SessionStore,
  SideSandboxRow,
  WorkspaceRow,
} from "../../ports/session-store.ts";
import type { StoredRow } from "../row-mapping.ts";
import {
  ENDED,
  execMapping,
  HOLDS_KEY,
  OPEN,
  sessionMapping,
  sideSandboxMapping,
} from "../row-mappings.ts";
import { admit, verdictOf } from "./admit.ts";
import { assignmentsOf } from "./assignments.ts";
import { ExecAdmission } from "./exec-admission.ts";
import { ExecChanges } from "./exec-changes.ts";
import { Daemons } from "./daemons.ts";
import type { Heartbeat } from "./daemons.ts";
import { Database } from "./database.ts";
import { pageOf } from "./page.ts";
import { WorkspaceRows } from "./workspace-rows.ts";

export const HEARTBEAT: Heartbeat = { intervalMs: 1000, deadAfterMs: 5000 };
/** Sessions deleted in one statement, so no lock is held for long. */
const FORGET_AT_ONCE = 1000;

const ended = sql.raw(ENDED);
const open = sql.raw(OPEN);
const sessionColumns = sql.raw(sessionMapping.columns);
const execColumns = sql.raw(execMapping.columns);

export interface PostgresSessionStoreOptions {
  readonly url: string;
  readonly log?: Log;
  readonly heartbeat?: Heartbeat;
  /** Replaces the database's clock. */
  readonly wallMs?: () => number;
}

export class PostgresSessionStore implements SessionStore {
  readonly isNew: boolean;
  /** Identifies the database; sandboxes of all daemons that share it carry it. */
  readonly instance: string;
  readonly heartbeat: Heartbeat;
  /** For data kept besides the rows. */
  readonly database: Database;
  readonly #database: Database;
  readonly #daemons: Daemons;
  readonly #execAdmission: ExecAdmission;
  readonly #execChanges: ExecChanges;
  readonly #workspaces: WorkspaceRows;
  readonly #log: Log | undefined;
  #closed: Promise<void> | undefined;

  private constructor(database: Database, facts: StoredRow, options: PostgresSessionStoreOptions) {
    this.database = database;
    this.#database = database;
    this.#execChanges = new ExecChanges(database);
    this.#execAdmission = new ExecAdmission({
      database,
      changes: this.#execChanges,
      find: (sessionId, key) => this.findExec(sessionId, key),
    });
    this.#workspaces = new WorkspaceRows(database);
    this.isNew = facts["is_settled"] === 0;
    this.instance = String(facts["instance"]);
    this.heartbeat = options.heartbeat ?? HEARTBEAT;
    this.#daemons = new Daemons(database, this.heartbeat, options.wallMs);
    this.#log = options.log;
  }

  /** INTERNAL_ERROR if it is unreachable, newer, or not ours. */
  static async open(options: PostgresSessionStoreOptions): Promise<PostgresSessionStore> {
    const database = await Database.open(options);
    const [facts = {}] = await database.rows("opening it", sql`SELECT * FROM store_facts`);
    return new PostgresSessionStore(database, facts, options);
  }

  async settle(): Promise<void> {
    await this.#rows("settling", sql`UPDATE store_facts SET is_settled = 1`);
  }

  async join(address: string | undefined, reading: ClockReading): Promise<Joined> {
    return await this.#daemons.join(address, reading);
  }

  async beat(fence: number, storeMs: number, reading: ClockReading): Promise<number | undefined> {
    return await this.#daemons.beat(fence, storeMs, reading);
  }

  async leave(fence: number): Promise<void> {
    await this.#daemons.leave(fence);
  }

  async livingDaemon(fence: number): Promise<DaemonRow | undefined> {
    return await this.#daemons.living(fence);
  }

  async claim(fence: number, places: readonly string[]): Promise<Claimed> {
    const { deadAfterMs } = this.heartbeat;
    return await this.#database.lasting("claiming sessions", async (transaction) => {
      const claim = sql`SELECT ${sessionColumns}
        FROM claim_sessions(${fence}, ${[...places]}::text[], ${deadAfterMs})`;
      const { rows } = await claim.execute(transaction);
      const sessions = (rows as StoredRow[]).map((row) => sessionMapping.read(row));
      if (sessions.length === 0) return { sessions };
      // From the sequence of the tokens, and before the next claim can begin.
      const next = sql`SELECT nextval(pg_get_serial_sequence('daemons', 'fence')) AS fence`;
      const [drawn] = (await next.execute(transaction)).rows as StoredRow[];
      return { sessions, sandboxFence: Number(drawn?.["fence"]) };
    });
  }

  async sandboxesAt(place: string): Promise<ReadonlySet<string>> {
    const rows = await this.#rows(
      "listing sandboxes",
      sql`SELECT coalesce(sandbox_id, id) AS id FROM sessions
            WHERE place = ${place} AND status NOT IN ${ended}
          UNION ALL SELECT id FROM side_sandboxes WHERE place = ${place}`,
    );
    return new Set(rows.map(({ id }) => String(id)));
  }

  async insertSideSandbox(row: SideSandboxRow): Promise<void> {
    const values = sideSandboxMapping.values(row).map((value) => sql`${value}`);
    const inserted = await this.#rows(
      "adding a sandbox",
      sql`INSERT INTO side_sandboxes (${sql.raw(sideSandboxMapping.columns)})
          SELECT ${sql.join(values)} WHERE is_living_daemon(${row.fence}) RETURNING id`,
    );
    if (inserted.length === 0) throw heldForDead();
  }

  async deleteSideSandbox(id: string): Promise<void> {
    await this.#rows("forgetting a sandbox", sql`DELETE FROM side_sandboxes WHERE id = ${id}`);
  }

  async insertSession(row: SessionRow, maxSessions: number): Promise<AdmittedSession> {
    const given = JSON.stringify(sessionMapping.record(row));
    const call = sql`admit_session(${given}::jsonb, ${maxSessions})`;
    return await admit<SessionRow, AdmittedSession>(
      row.id,
      () => verdictOf(this.#database, "adding a session", call),
      async () => (await this.#ofIdempotencyKey(row)) ?? (await this.#ofKey(row.owner, row.key)),
      { sandbox_lost: { inserted: false, sandboxLost: true } },
    );
  }

  async getSession(id: string): Promise<SessionRow | undefined> {
    return await this.#session("reading a session", sql`id = ${id}`);
  }

  async findByKey(owner: string, key: string): Promise<SessionRow | undefined> {
    return await this.#ofKey(owner, key);
  }

  async listSessions(filter: SessionFilter): Promise<Page<SessionRow>> {
    const { owner, status, key, metadata = {}, ...page } = filter;
    const conditions = owner === undefined ? [sql`TRUE`] : [sql`owner = ${owner}`];
    if (status !== undefined) conditions.push(sql`status = ${status}`);
    if (key !== undefined) conditions.push(sql`key = ${key}`);
    for (const [name, value] of Object.entries(metadata))
      conditions.push(sql`has_metadata(metadata, ${name}, ${value})`);
    const isLiving = `(CASE WHEN status IN ${ENDED} THEN 0 ELSE 1 END)`;
    return await pageOf(sessionMapping, page, {
      sortedBy: { [isLiving]: "number", created_at_ms: "number", id: "string" },
      conditions,
      rows: (query) => this.#rows("listing sessions", query),
      log: this.#log,
    });
  }

  async livingSessions(owner?: string): Promise<readonly SessionRow[]> {
    const ofOwner = owner === undefined ? sql`TRUE` : sql`owner = ${owner}`;
    return await this.#database.read(
      "reading the active sessions",
      sessionMapping,
      sql`SELECT ${sessionColumns} FROM sessions
          WHERE ${ofOwner} AND status NOT IN ${ended} ORDER BY created_at_ms`,
    );
  }

  async updateSession(
    id: string,
    fence: number,
    from: readonly SessionStatus[],
    patch: SessionPatch,
  ): Promise<SessionRow | undefined> {
    // Once a session ends, its sandbox cannot tell how its last commands ended.
    if (patch.status !== undefined) await this.#execChanges.flush();
    const where = sql`id = ${id} AND fence = ${fence} AND status = ANY (${[...from]}::text[])`;
    const set = assignmentsOf(sessionMapping.changes(patch));
    if (set === undefined) return await this.#session("changing a session", where);
    const [row] = await this.#database.read(
      "changing a session",
      sessionMapping,
      sql`UPDATE sessions SET ${set} WHERE ${where} RETURNING ${sessionColumns}`,
    );
    return row;
  }

  async forgetSessionsEndedBefore(wallMs: number): Promise<readonly string[]> {
    const forgotten: string[] = [];
    for (let more = true; more;) {
      const rows = await this.#rows(
        "forgetting sessions",
        sql`DELETE FROM sessions WHERE id IN (
              SELECT id FROM sessions WHERE status IN ${ended} AND ended_at_ms < ${wallMs}
              LIMIT ${FORGET_AT_ONCE} FOR UPDATE SKIP LOCKED
            ) RETURNING id`,
      );
      forgotten.push(...rows.map(({ id }) => String(id)));
      more = rows.length === FORGET_AT_ONCE;
    }
    return forgotten;
  }

  async insertExec(row: ExecRow, fence: number, maxRunning: number): Promise<Admitted<ExecRow>> {
    return await this.#execAdmission.insert(row, fence, maxRunning);
  }

  async updateExec(sessionId: string, id: string, fence: number, patch: ExecPatch): Promise<void> {
    await this.#execChanges.write({ sessionId, id, fence, patch });
  }

  async getExec(sessionId: string, id: string): Promise<ExecRow | undefined> {
    return await this.#exec(sql`session_id = ${sessionId} AND id = ${id}`);
  }

  async findExec(sessionId: string, idempotencyKey: string): Promise<ExecRow | undefined> {
    return await this.#exec(
      sql`session_id = ${sessionId} AND idempotency_key = ${idempotencyKey} AND ${sql.raw(HOLDS_KEY)}`,
    );
  }

  async countExecsAfter({ sessionId, id, startedAtMs }: ExecRow): Promise<number> {
    const [counted] = await this.#rows(
      "counting commands",
      sql`SELECT count(*) AS n FROM execs WHERE session_id = ${sessionId} AND id <> ${id}
          AND (id > ${id} OR ended_at_ms IS NULL OR ended_at_ms >= ${startedAtMs})`,
    );
    return Number(counted?.["n"]);
  }

  async listExecs(
    sessionId: string,
    page: { readonly limit: number; readonly cursor?: string },
  ): Promise<Page<ExecRow>> {
    return await pageOf(execMapping, page, {
      sortedBy: { id: "string" },
      conditions: [sql`session_id = ${sessionId}`],
      rows: (query) => this.#rows("listing commands", query),
      log: this.#log,
    });
  }

  async unfinishedExecs(fence: number): Promise<readonly ExecRow[]> {
    return await this.#database.read(
      "reading the unfinished commands",
      execMapping,
      sql`SELECT ${execColumns} FROM execs
          WHERE status <> 'done' AND session_id IN (SELECT id FROM sessions WHERE fence = ${fence})
          ORDER BY status = 'queued', started_at_ms, id`,
    );
  }

  async insertWorkspace(row: WorkspaceRow, maxWorkspaces: number): Promise<Admitted<WorkspaceRow>> {
    return await this.#workspaces.insert(row, maxWorkspaces);
  }

  async touchWorkspace(diskId: string, lastUsedAtMs: number): Promise<boolean> {
    return await this.#workspaces.touch(diskId, lastUsedAtMs);
  }

  async getWorkspace(owner: string, id: string): Promise<WorkspaceRow | undefined> {
    return await this.#workspaces.get(owner, id);
  }

  async listWorkspaces(owner: string): Promise<readonly WorkspaceRow[]> {
    return await this.#workspaces.list(owner);
  }

  async allWorkspaces(): Promise<readonly WorkspaceRow[]> {
    return await this.#workspaces.all();
  }

  async deleteWorkspace(diskId: string): Promise<void> {
    await this.#workspaces.delete(diskId);
  }

  async endWorkspace(
    diskId: string,
    fence: number,
    { ifUnused = false }: { readonly ifUnused?: boolean } = {},
  ): Promise<"begun" | "inherited" | undefined> {
    return await this.#workspaces.end(diskId, fence, ifUnused);
  }

  async keepWorkspace(diskId: string, fence: number): Promise<void> {
    await this.#workspaces.keep(diskId, fence);
  }

  close(): void {
    void this.closed();
  }

  /** Closes it; resolves when everything under way is done and every connection has ended. */
  async closed(): Promise<void> {
    const changes = this.#execChanges;
    this.#closed ??= changes.areWaiting
      ? changes.flush().then(() => this.#database.close())
      : this.#database.close();
    await this.#closed;
  }

  async #ofIdempotencyKey({ owner, idempotencyKey }: SessionRow): Promise<SessionRow | undefined> {
    if (idempotencyKey === undefined) return undefined;
    return await this.#session(
      "looking for a repeated request",
      sql`owner = ${owner} AND idempotency_key = ${idempotencyKey} AND status <> 'failed'`,
    );
  }

  async #ofKey(owner: string, key: string | undefined): Promise<SessionRow | undefined> {
    if (key === undefined) return undefined;
    const where = sql`owner = ${owner} AND key = ${key} AND status IN ${open}`;
    return await this.#session("looking for a key", where);
  }

  async #session(doing: string, where: RawBuilder<unknown>): Promise<SessionRow | undefined> {
    const query = sql`SELECT ${sessionColumns} FROM sessions WHERE ${where}`;
    const [row] = await this.#database.read(doing, sessionMapping, query);
    return row;
  }

  async #exec(where: RawBuilder<unknown>): Promise<ExecRow | undefined> {
    const query = sql`SELECT ${execColumns} FROM execs WHERE ${where}`;
    const [row] = await this.#database.read("reading a command", execMapping, query);
    return row;
  }

  async #rows(doing: string, query: RawBuilder<unknown>): Promise<readonly StoredRow[]> {
    return await this.#database.rows(doing, query);
  }
}
