/** The initial schema of a Postgres database. */
import type { Migration } from "../migration.ts";

/** The SQLite schema at version 10, in the Postgres dialect. */
const allAtOnce = `
  CREATE TABLE sessions (
    id                  TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    owner               TEXT NOT NULL,
    status              TEXT NOT NULL,
    key                 TEXT,
    requested_image     TEXT NOT NULL,
    image               TEXT NOT NULL,
    image_digest        TEXT,
    sandbox_id          TEXT,
    profile             TEXT NOT NULL,
    limits              TEXT NOT NULL,
    metadata            TEXT NOT NULL,
    workspace_id        TEXT,
    acquire_source      TEXT NOT NULL,
    cwd                 TEXT NOT NULL,
    ttl_ms              DOUBLE PRECISION NOT NULL,
    created_at_ms       DOUBLE PRECISION NOT NULL,
    last_activity_at_ms DOUBLE PRECISION NOT NULL,
    ended_at_ms         DOUBLE PRECISION,
    end_reason          TEXT,
    boot_id             TEXT NOT NULL,
    lease_ends_ms       DOUBLE PRECISION NOT NULL,
    lifetime_ends_ms    DOUBLE PRECISION NOT NULL,
    idempotency_key     TEXT,
    request_hash        TEXT,
    backend             TEXT NOT NULL,
    network             TEXT NOT NULL,
    isolation           TEXT NOT NULL,
    workspaces          TEXT NOT NULL
  ) WITH (fillfactor = 70);
  CREATE UNIQUE INDEX sessions_by_key ON sessions (owner, key)
    WHERE status IN ('creating', 'running', 'paused');
  CREATE UNIQUE INDEX sessions_by_idempotency_key ON sessions (owner, idempotency_key)
    WHERE idempotency_key IS NOT NULL AND status <> 'failed';
  CREATE INDEX sessions_living_first ON sessions (
    owner,
    (CASE WHEN status IN ('destroyed', 'expired', 'crashed', 'failed') THEN 0 ELSE 1 END) DESC,
    created_at_ms DESC, id DESC
  );
  CREATE INDEX sessions_ended ON sessions (ended_at_ms)
    WHERE status IN ('destroyed', 'expired', 'crashed', 'failed');

  CREATE TABLE execs (
    id               TEXT COLLATE "C" NOT NULL,
    session_id       TEXT COLLATE "C" NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    owner            TEXT NOT NULL,
    status           TEXT NOT NULL,
    mode             TEXT NOT NULL,
    command          TEXT NOT NULL,
    started_at_ms    DOUBLE PRECISION NOT NULL,
    ended_at_ms      DOUBLE PRECISION,
    exit_code        BIGINT,
    signal           BIGINT,
    end_reason       TEXT,
    cwd              TEXT,
    duration_ms      DOUBLE PRECISION,
    stdout_bytes     BIGINT NOT NULL,
    stderr_bytes     BIGINT NOT NULL,
    dropped_bytes    BIGINT NOT NULL,
    shell_restarted  BIGINT NOT NULL,
    idempotency_key  TEXT,
    request_hash     TEXT,
    timeout_ms       DOUBLE PRECISION,
    timeout_clamped  BIGINT NOT NULL,
    shell            TEXT,
    background       BIGINT NOT NULL,
    background_bytes BIGINT NOT NULL,
    request          TEXT,
    PRIMARY KEY (session_id, id)
  ) WITH (fillfactor = 80);
  CREATE UNIQUE INDEX execs_by_idempotency_key ON execs (session_id, idempotency_key)
    WHERE idempotency_key IS NOT NULL AND (end_reason IS NULL OR end_reason <> 'not_started');

  CREATE TABLE workspaces (
    id              TEXT NOT NULL,
    owner           TEXT NOT NULL,
    disk_id         TEXT NOT NULL UNIQUE,
    created_at_ms   DOUBLE PRECISION NOT NULL,
    last_used_at_ms DOUBLE PRECISION NOT NULL,
    backend         TEXT NOT NULL,
    PRIMARY KEY (owner, id)
  );
`;

export const FIRST_MIGRATION: Migration = { version: 10, name: "all at once", sql: allAtOnce };
