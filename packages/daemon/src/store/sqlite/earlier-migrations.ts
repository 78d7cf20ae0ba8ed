/** The schema versions from when there was only SQLite. */
import type { Migration } from "../migration.ts";

/**
 * Times in the first design are texts. The older program has the same table without a version,
 * which distinguishes it.
 */
const sessionsOfTheFirstDesign = `
  CREATE TABLE IF NOT EXISTS sessions (
    id            TEXT PRIMARY KEY,
    image         TEXT NOT NULL,
    container_id  TEXT NOT NULL,
    status        TEXT NOT NULL DEFAULT 'running',
    cwd           TEXT NOT NULL DEFAULT '/workspace',
    created_at    TEXT NOT NULL,
    expires_at    TEXT NOT NULL,
    last_activity TEXT NOT NULL
  );
`;

/** Converts a time in text to milliseconds; SQLite may not understand what follows the seconds. */
const msOf = (text: string): string =>
  `round(1000 * coalesce(unixepoch(${text}, 'subsec'), unixepoch(substr(${text}, 1, 19)), unixepoch('now', 'subsec')))`;

/**
 * Sessions of the first design become ended ones: this daemon cannot run their containers. Their
 * owner is that of the single key, and their limits are that design's defaults, with a disk that it
 * did not limit.
 */
const ownersExecsAndWorkspaces = `
  ALTER TABLE sessions RENAME TO sessions_of_the_first_design;

  CREATE TABLE sessions (
    id                  TEXT NOT NULL PRIMARY KEY,
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
    ttl_ms              REAL NOT NULL,
    created_at_ms       REAL NOT NULL,
    last_activity_at_ms REAL NOT NULL,
    ended_at_ms         REAL,
    end_reason          TEXT,
    boot_id             TEXT NOT NULL,
    lease_ends_ms       REAL NOT NULL,
    lifetime_ends_ms    REAL NOT NULL,
    idempotency_key     TEXT,
    request_hash        TEXT
  ) STRICT;
  CREATE UNIQUE INDEX sessions_by_key ON sessions (owner, key)
    WHERE status IN ('creating', 'running', 'paused');
  CREATE UNIQUE INDEX sessions_by_idempotency_key ON sessions (owner, idempotency_key)
    WHERE idempotency_key IS NOT NULL AND status <> 'failed';
  CREATE INDEX sessions_newest_first ON sessions (owner, created_at_ms DESC, id DESC);
  CREATE INDEX sessions_ended ON sessions (ended_at_ms)
    WHERE status IN ('destroyed', 'expired', 'crashed', 'failed');

  CREATE TABLE execs (
    id              TEXT NOT NULL PRIMARY KEY,
    session_id      TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    owner           TEXT NOT NULL,
    status          TEXT NOT NULL,
    mode            TEXT NOT NULL,
    command         TEXT NOT NULL,
    started_at_ms   REAL NOT NULL,
    ended_at_ms     REAL,
    exit_code       INTEGER,
    signal          INTEGER,
    end_reason      TEXT,
    cwd             TEXT,
    duration_ms     REAL,
    stdout_bytes    INTEGER NOT NULL,
    stderr_bytes    INTEGER NOT NULL,
    dropped_bytes   INTEGER NOT NULL,
    shell_restarted INTEGER NOT NULL,
    idempotency_key TEXT,
    request_hash    TEXT
  ) STRICT;
  CREATE UNIQUE INDEX execs_by_idempotency_key ON execs (session_id, idempotency_key)
    WHERE idempotency_key IS NOT NULL;
  CREATE INDEX execs_newest_first ON execs (session_id, started_at_ms DESC, id DESC);

  CREATE TABLE workspaces (
    id              TEXT NOT NULL,
    owner           TEXT NOT NULL,
    disk_id         TEXT NOT NULL UNIQUE,
    created_at_ms   REAL NOT NULL,
    last_used_at_ms REAL NOT NULL,
    PRIMARY KEY (owner, id)
  ) STRICT;

  INSERT INTO sessions (
    id, owner, status, requested_image, image, profile, limits, metadata, acquire_source, cwd,
    ttl_ms, created_at_ms, last_activity_at_ms, ended_at_ms, end_reason, boot_id, lease_ends_ms,
    lifetime_ends_ms
  )
  SELECT
    id,
    'default',
    CASE WHEN status IN ('destroyed', 'expired') THEN status ELSE 'crashed' END,
    image,
    image,
    'restricted',
    '{"memoryBytes":536870912,"cpuMillicores":1000,"pids":256,"diskBytes":1073741824,"diskInodes":65536}',
    '{}',
    'cold',
    cwd,
    max(0, ${msOf("expires_at")} - ${msOf("last_activity")}),
    ${msOf("created_at")},
    ${msOf("last_activity")},
    CASE status
      WHEN 'destroyed' THEN ${msOf("last_activity")}
      WHEN 'expired' THEN ${msOf("expires_at")}
      ELSE ${msOf("'now'")}
    END,
    'made by an earlier version of the daemon, in the container ' || container_id,
    '',
    0,
    0
  FROM sessions_of_the_first_design;

  DROP TABLE sessions_of_the_first_design;
`;

/** Before there were several backends, the embedded one created everything. */
const severalBackends = `
  ALTER TABLE sessions ADD COLUMN backend TEXT NOT NULL DEFAULT 'oci';
  ALTER TABLE workspaces ADD COLUMN backend TEXT NOT NULL DEFAULT 'oci';
`;

/**
 * Commands are inserted constantly. In one tree by session and id, where an id begins with the
 * time, a new one is appended at its session's end; before, two more trees were needed.
 */
const commandsInOneTree = `
  ALTER TABLE execs RENAME TO execs_in_three_trees;
  DROP INDEX execs_by_idempotency_key;
  DROP INDEX execs_newest_first;

  CREATE TABLE execs (
    id              TEXT NOT NULL,
    session_id      TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    owner           TEXT NOT NULL,
    status          TEXT NOT NULL,
    mode            TEXT NOT NULL,
    command         TEXT NOT NULL,
    started_at_ms   REAL NOT NULL,
    ended_at_ms     REAL,
    exit_code       INTEGER,
    signal          INTEGER,
    end_reason      TEXT,
    cwd             TEXT,
    duration_ms     REAL,
    stdout_bytes    INTEGER NOT NULL,
    stderr_bytes    INTEGER NOT NULL,
    dropped_bytes   INTEGER NOT NULL,
    shell_restarted INTEGER NOT NULL,
    idempotency_key TEXT,
    request_hash    TEXT,
    PRIMARY KEY (session_id, id)
  ) STRICT, WITHOUT ROWID;
  CREATE UNIQUE INDEX execs_by_idempotency_key ON execs (session_id, idempotency_key)
    WHERE idempotency_key IS NOT NULL;

  INSERT INTO execs SELECT * FROM execs_in_three_trees;
  DROP TABLE execs_in_three_trees;
`;

/** Before networks could be requested, no sandbox had one. */
const networks = `
  ALTER TABLE sessions ADD COLUMN network TEXT NOT NULL DEFAULT 'none';
`;

/** For earlier commands the timeout is unknown, and all ran in the only shell. */
const shellsAndTimeouts = `
  ALTER TABLE execs ADD COLUMN timeout_ms REAL;
  ALTER TABLE execs ADD COLUMN timeout_clamped INTEGER NOT NULL DEFAULT 0;
  ALTER TABLE execs ADD COLUMN shell TEXT;
  ALTER TABLE execs ADD COLUMN background INTEGER NOT NULL DEFAULT 0;
  ALTER TABLE execs ADD COLUMN background_bytes INTEGER NOT NULL DEFAULT 0;
`;

/** Before, only the daemon that received a command knew its request. */
const requestsOfCommands = `
  ALTER TABLE execs ADD COLUMN request TEXT;
  DROP INDEX execs_by_idempotency_key;
  CREATE UNIQUE INDEX execs_by_idempotency_key ON execs (session_id, idempotency_key)
    WHERE idempotency_key IS NOT NULL AND (end_reason IS NULL OR end_reason <> 'not_started');
`;

/** Active sessions come first in lists; ended ones would otherwise hide them. */
const livingSessionsFirst = `
  DROP INDEX sessions_newest_first;
  CREATE INDEX sessions_living_first ON sessions (
    owner, (status NOT IN ('destroyed', 'expired', 'crashed', 'failed')) DESC, created_at_ms DESC, id DESC
  );
`;

/** Before isolation could be requested, all sandboxes had their backend's default. */
const isolations = `
  ALTER TABLE sessions ADD COLUMN isolation TEXT NOT NULL DEFAULT 'standard';
`;

/** Before further workspaces could be requested, no session had any. */
const furtherWorkspaces = `
  ALTER TABLE sessions ADD COLUMN workspaces TEXT NOT NULL DEFAULT '[]';
`;

export const EARLIER_MIGRATIONS: readonly Migration[] = [
  { version: 1, name: "sessions of the first design", sql: sessionsOfTheFirstDesign },
  { version: 2, name: "owners, execs and workspaces", sql: ownersExecsAndWorkspaces },
  { version: 3, name: "several backends", sql: severalBackends },
  { version: 4, name: "commands in one tree", sql: commandsInOneTree },
  { version: 5, name: "networks", sql: networks },
  { version: 6, name: "shells and timeouts", sql: shellsAndTimeouts },
  { version: 7, name: "requests of commands", sql: requestsOfCommands },
  { version: 8, name: "living sessions first", sql: livingSessionsFirst },
  { version: 9, name: "isolations", sql: isolations },
  { version: 10, name: "further workspaces", sql: furtherWorkspaces },
];
