/**
 * Decisions that Postgres makes in one round trip, because several daemons make them concurrently:
 * which rows are admitted, and which daemon serves what. Each statement of a function sees
 * everything committed before it began, so counts taken under a lock are exact.
 */
import { ENDED, HOLDS_KEY, OPEN } from "../row-mappings.ts";

/** Commands that may be admitted concurrently; closer than this to a quota they are admitted one by one. */
export const SIDE_BY_SIDE = 64;

export const FUNCTIONS = `
  CREATE TABLE store_facts (instance TEXT NOT NULL, is_settled BIGINT NOT NULL);
  INSERT INTO store_facts VALUES (substr(md5(random()::text || clock_timestamp()::text), 1, 12), 0);

  CREATE FUNCTION is_living_daemon(token BIGINT) RETURNS BOOLEAN LANGUAGE plpgsql AS $$
  BEGIN
    PERFORM 1 FROM daemons WHERE fence = token AND is_dead = 0 FOR SHARE;
    RETURN FOUND;
  END $$;

  CREATE FUNCTION has_metadata(metadata TEXT, name TEXT, wanted TEXT) RETURNS BOOLEAN
  LANGUAGE plpgsql IMMUTABLE AS $$
  BEGIN
    RETURN jsonb_typeof(metadata::jsonb -> name) = 'string' AND metadata::jsonb ->> name = wanted;
  EXCEPTION WHEN OTHERS THEN
    RETURN FALSE;
  END $$;

  CREATE FUNCTION admit_session(given JSONB, max_sessions BIGINT) RETURNS TEXT LANGUAGE plpgsql AS $$
  DECLARE new_row sessions := jsonb_populate_record(NULL::sessions, given);
  BEGIN
    IF NOT is_living_daemon(new_row.fence) THEN RETURN 'dead'; END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended(new_row.owner, 1));
    IF EXISTS (
      SELECT 1 FROM sessions WHERE owner = new_row.owner AND (
        (key = new_row.key AND status IN ${OPEN})
        OR (idempotency_key = new_row.idempotency_key AND status <> 'failed'))
    ) THEN RETURN 'exists'; END IF;
    IF (SELECT count(*) FROM sessions WHERE owner = new_row.owner AND status IN ${OPEN}) >= max_sessions
      THEN RETURN 'full'; END IF;
    INSERT INTO sessions SELECT new_row.*;
    RETURN 'inserted';
  END $$;

  CREATE FUNCTION admit_workspace(given JSONB, max_workspaces BIGINT) RETURNS TEXT LANGUAGE plpgsql AS $$
  DECLARE new_row workspaces := jsonb_populate_record(NULL::workspaces, given);
  BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended(new_row.owner, 2));
    IF EXISTS (SELECT 1 FROM workspaces WHERE owner = new_row.owner AND id = new_row.id)
      THEN RETURN 'exists'; END IF;
    IF (SELECT count(*) FROM workspaces WHERE owner = new_row.owner) >= max_workspaces
      THEN RETURN 'full'; END IF;
    INSERT INTO workspaces SELECT new_row.*;
    RETURN 'inserted';
  END $$;

  CREATE FUNCTION admit_exec(given JSONB, token BIGINT, max_running BIGINT) RETURNS TEXT
  LANGUAGE plpgsql AS $$
  DECLARE
    new_row execs := jsonb_populate_record(NULL::execs, given);
    turn BIGINT := hashtextextended(new_row.owner, 3);
    is_far BOOLEAN;
    running BIGINT;
  BEGIN
    is_far := (SELECT count(*) FROM execs WHERE owner = new_row.owner AND status <> 'done')
      + ${SIDE_BY_SIDE} < max_running;
    IF is_far THEN PERFORM pg_advisory_xact_lock_shared(turn);
    ELSE PERFORM pg_advisory_xact_lock(turn); END IF;
    running := (SELECT count(*) FROM execs WHERE owner = new_row.owner AND status <> 'done');
    IF is_far AND running + ${SIDE_BY_SIDE} >= max_running THEN RETURN 'again'; END IF;
    IF new_row.idempotency_key IS NOT NULL AND EXISTS (
      SELECT 1 FROM execs WHERE session_id = new_row.session_id
        AND idempotency_key = new_row.idempotency_key AND ${HOLDS_KEY}
    ) THEN RETURN 'exists'; END IF;
    PERFORM 1 FROM sessions WHERE id = new_row.session_id AND fence = token FOR SHARE;
    IF NOT FOUND THEN RETURN 'lost'; END IF;
    IF running >= max_running THEN RETURN 'full'; END IF;
    INSERT INTO execs SELECT new_row.* ON CONFLICT DO NOTHING;
    IF FOUND THEN RETURN 'inserted'; ELSE RETURN 'exists'; END IF;
  END $$;

  CREATE FUNCTION give_sandbox(session TEXT, token BIGINT, sandbox TEXT) RETURNS SETOF sessions
  LANGUAGE plpgsql AS $$
  BEGIN
    DELETE FROM side_sandboxes WHERE id = sandbox AND fence = token;
    IF NOT FOUND THEN RETURN; END IF;
    RETURN QUERY UPDATE sessions SET sandbox_id = sandbox, acquire_source = 'pool'
      WHERE id = session AND fence = token AND status = 'creating' RETURNING *;
  END $$;

  CREATE FUNCTION claim_sessions(token BIGINT, at_places TEXT[], dead_after DOUBLE PRECISION)
  RETURNS SETOF sessions LANGUAGE plpgsql AS $$
  DECLARE dead BIGINT[];
  BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('claims', 0));
    IF NOT is_living_daemon(token) THEN RAISE EXCEPTION 'held for dead' USING ERRCODE = 'SKDEA'; END IF;
    UPDATE daemons SET is_dead = 1 WHERE is_dead = 0 AND fence <> token
      AND store_ms < (SELECT max(store_ms) FROM daemons) - dead_after;
    dead := ARRAY(SELECT fence FROM daemons WHERE is_dead = 1);
    DELETE FROM side_sandboxes WHERE fence = ANY (dead) AND place = ANY (at_places);
    RETURN QUERY UPDATE sessions SET fence = token
      WHERE fence = ANY (dead) AND place = ANY (at_places)
        AND (status NOT IN ${ENDED}
          OR id IN (SELECT session_id FROM execs WHERE status <> 'done'))
      RETURNING *;
  END $$;
`;

/** A session with a pooled sandbox is recorded under the sandbox's id, and replaces its row. */
export const POOLED_SESSIONS = `
  DROP FUNCTION give_sandbox;

  CREATE OR REPLACE FUNCTION admit_session(given JSONB, max_sessions BIGINT) RETURNS TEXT
  LANGUAGE plpgsql AS $$
  DECLARE new_row sessions := jsonb_populate_record(NULL::sessions, given);
  BEGIN
    IF NOT is_living_daemon(new_row.fence) THEN RETURN 'dead'; END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended(new_row.owner, 1));
    IF EXISTS (
      SELECT 1 FROM sessions WHERE owner = new_row.owner AND (
        (key = new_row.key AND status IN ${OPEN})
        OR (idempotency_key = new_row.idempotency_key AND status <> 'failed'))
    ) THEN RETURN 'exists'; END IF;
    IF (SELECT count(*) FROM sessions WHERE owner = new_row.owner AND status IN ${OPEN}) >= max_sessions
      THEN RETURN 'full'; END IF;
    IF new_row.acquire_source = 'pool' THEN
      DELETE FROM side_sandboxes WHERE id = new_row.id AND fence = new_row.fence;
      IF NOT FOUND THEN RETURN 'sandbox_lost'; END IF;
    END IF;
    INSERT INTO sessions SELECT new_row.*;
    RETURN 'inserted';
  END $$;
`;

/** For the statement that inserts a command; `admit_exec` decides if the quota is near. */
export const COMMAND_FUNCTIONS = `
  CREATE FUNCTION is_far_from_quota(of_owner TEXT, max_running BIGINT) RETURNS BOOLEAN
  LANGUAGE plpgsql AS $$
  BEGIN
    PERFORM pg_advisory_xact_lock_shared(hashtextextended(of_owner, 3));
    RETURN (SELECT count(*) FROM execs WHERE owner = of_owner AND status <> 'done')
      + ${SIDE_BY_SIDE} < max_running;
  END $$;
`;
