/** The table of sessions. */
import { SESSION_STATUSES } from "@sandkasten/protocol";
import type { SessionStatus } from "@sandkasten/protocol";
import { z } from "zod";
import type { Log } from "../ports/log.ts";
import type {
  Inserted,
  Page,
  SessionFilter,
  SessionPatch,
  SessionRow,
  WorkspaceMount,
} from "../ports/session-store.ts";
import { json, number, oneOf, optional, text } from "./columns.ts";
import { RowMapping } from "./row-mapping.ts";
import type { SessionDatabase } from "./session-database.ts";
import { Table } from "./table.ts";
import type { Condition } from "./table.ts";

const limits = z.object({
  memoryBytes: z.number(),
  cpuMillicores: z.number(),
  pids: z.number(),
  diskBytes: z.number(),
  diskInodes: z.number(),
});

const mounts = z.array(z.object({ id: z.string(), path: z.string(), readOnly: z.boolean() }));

const mapping = new RowMapping<SessionRow>("sessions", {
  id: text,
  owner: text,
  status: oneOf(SESSION_STATUSES),
  key: optional(text),
  requestedImage: text,
  image: text,
  imageDigest: optional(text),
  backend: text,
  sandboxId: optional(text),
  profile: oneOf(["restricted", "root"]),
  network: oneOf(["none", "full"]),
  isolation: oneOf(["standard", "strong"]),
  limits: json(limits),
  metadata: json(z.record(z.string(), z.string())),
  workspaceId: optional(text),
  workspaces: json<readonly WorkspaceMount[]>(mounts),
  acquireSource: oneOf(["pool", "cold"]),
  cwd: text,
  ttlMs: number,
  createdAtMs: number,
  lastActivityAtMs: number,
  endedAtMs: optional(number),
  endReason: optional(text),
  bootId: text,
  leaseEndsMs: number,
  lifetimeEndsMs: number,
  idempotencyKey: optional(text),
  requestHash: optional(text),
});

/** As the unique index has it: a session that is being destroyed is in nobody's way. */
const HAS_KEY = "owner = ? AND key = ? AND status IN ('creating', 'running', 'paused')";
const ENDED = "('destroyed', 'expired', 'crashed', 'failed')";
/** As the index of the list has it. */
const IS_LIVING = `(status NOT IN ${ENDED})`;
/** Metadata that is no JSON fits no filter, and spoils no list. */
const HAS_METADATA = `EXISTS (
  SELECT 1 FROM json_each(CASE WHEN json_valid(metadata) THEN metadata ELSE '{}' END) AS entry
  WHERE entry.key = ? AND entry.type = 'text' AND entry.value = ?
)`;

export class SessionTable {
  readonly #database: SessionDatabase;
  readonly #table: Table<SessionRow>;

  constructor(database: SessionDatabase, log: Log | undefined) {
    this.#database = database;
    this.#table = new Table(database, mapping, log);
  }

  insert(row: SessionRow): Inserted<SessionRow> {
    return this.#database.write("adds", "adding a session", () => {
      if (this.#table.insert(row)) return { inserted: true };
      // A repeated request is answered as it was before, even if its key has another session by now.
      const existing = this.#ofIdempotencyKey(row) ?? this.#ofKey(row.owner, row.key);
      if (existing === undefined) throw new Error(`the id ${row.id} is taken`);
      return { inserted: false, existing };
    });
  }

  get(id: string): SessionRow | undefined {
    return this.#database.read("reading a session", () => this.#table.first("id = ?", id));
  }

  findByKey(owner: string, key: string): SessionRow | undefined {
    return this.#database.read("looking for a key", () => this.#ofKey(owner, key));
  }

  list({ owner, status, key, metadata, ...page }: SessionFilter): Page<SessionRow> {
    const conditions: Condition[] = [{ sql: "owner = ?", values: [owner] }];
    if (status !== undefined) conditions.push({ sql: "status = ?", values: [status] });
    if (key !== undefined) conditions.push({ sql: "key = ?", values: [key] });
    for (const entry of Object.entries(metadata ?? {}))
      conditions.push({ sql: HAS_METADATA, values: entry });
    return this.#database.read("listing sessions", () =>
      this.#table.page(
        { [IS_LIVING]: "number", created_at_ms: "number", id: "string" },
        conditions,
        page,
      ),
    );
  }

  /** Those of an unknown status included, for only what has ended surely has no sandbox. */
  living(): SessionRow[] {
    return this.#database.read("reading the living sessions", () =>
      this.#table.all(`WHERE status NOT IN ${ENDED} ORDER BY created_at_ms`),
    );
  }

  update(id: string, from: readonly SessionStatus[], patch: SessionPatch): SessionRow | undefined {
    const where = `id = ? AND status IN (${from.map(() => "?").join(", ")})`;
    return this.#database.write("changes", "changing a session", () =>
      this.#table.update(patch, where, id, ...from),
    );
  }

  /** At most so many at once; their commands go with them, by the foreign key. */
  forgetEndedBefore(wallMs: number, limit: number): string[] {
    const sql = `DELETE FROM sessions WHERE id IN (
      SELECT id FROM sessions WHERE status IN ${ENDED} AND ended_at_ms < ? LIMIT ?
    ) RETURNING id`;
    return this.#database.write("changes", "forgetting sessions", () =>
      this.#database.rows(sql, wallMs, limit).map(({ id }) => String(id)),
    );
  }

  #ofIdempotencyKey({ owner, idempotencyKey }: SessionRow): SessionRow | undefined {
    if (idempotencyKey === undefined) return undefined;
    return this.#table.first(
      "owner = ? AND idempotency_key = ? AND status <> 'failed'",
      owner,
      idempotencyKey,
    );
  }

  #ofKey(owner: string, key: string | undefined): SessionRow | undefined {
    return key === undefined ? undefined : this.#table.first(HAS_KEY, owner, key);
  }
}
