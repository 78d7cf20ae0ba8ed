/**
 * Events and keys of all daemons that share a database.
 *
 * Writers of events take turns on the row of `event_feed`, which assigns positions. A position thus
 * becomes visible only after all lower ones: a reader past it has missed nothing.
 */

/** Approximate size of an event besides its texts. */
const ROW_BYTES = 64;

export const EVENTS_AND_KEYS = `
  CREATE TABLE event_feed (cursor_key BYTEA, newest BIGINT NOT NULL, removed BIGINT NOT NULL);
  INSERT INTO event_feed VALUES (NULL, 0, 0);

  CREATE TABLE events (
    position   BIGINT NOT NULL PRIMARY KEY,
    at_ms      DOUBLE PRECISION NOT NULL,
    owner      TEXT NOT NULL,
    session_id TEXT COLLATE "C",
    type       TEXT NOT NULL,
    data       TEXT NOT NULL,
    bytes      BIGINT NOT NULL
  );
  CREATE INDEX events_by_owner ON events (owner, position);
  CREATE INDEX events_by_session ON events (session_id, position) WHERE session_id IS NOT NULL;

  CREATE TABLE event_owners (
    owner   TEXT NOT NULL PRIMARY KEY,
    events  BIGINT NOT NULL,
    bytes   BIGINT NOT NULL,
    removed BIGINT NOT NULL
  );
  CREATE INDEX event_owners_by_removed ON event_owners (removed);

  CREATE TABLE keys (
    id                TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    name              TEXT NOT NULL,
    owner             TEXT NOT NULL,
    scope             TEXT NOT NULL CHECK (scope IN ('admin', 'use', 'read')),
    digest            TEXT NOT NULL UNIQUE,
    created_at_ms     DOUBLE PRECISION NOT NULL,
    expires_at_ms     DOUBLE PRECISION,
    revoked_at_ms     DOUBLE PRECISION,
    last_used_at_ms   DOUBLE PRECISION,
    max_sessions      BIGINT,
    max_running_execs BIGINT,
    max_image_bytes   BIGINT
  );

  CREATE FUNCTION append_events(
    token BIGINT, times DOUBLE PRECISION[], owners TEXT[], session_ids TEXT[], types TEXT[], texts TEXT[]
  ) RETURNS VOID LANGUAGE plpgsql AS $$
  DECLARE
    before BIGINT;
    is_living BOOLEAN := is_living_daemon(token);
  BEGIN
    SELECT newest INTO before FROM event_feed FOR UPDATE;
    WITH given AS (
      SELECT * FROM unnest(times, owners, session_ids, types, texts)
        WITH ORDINALITY AS e(at_ms, owner, session_id, type, data, place)
      WHERE e.session_id IS NULL OR (is_living
        AND NOT EXISTS (SELECT 1 FROM sessions s WHERE s.id = e.session_id AND s.fence <> token))
    ), added AS (
      INSERT INTO events
      SELECT before + row_number() OVER (ORDER BY place), at_ms, owner, session_id, type, data,
        ${ROW_BYTES} + length(owner) + length(type) + octet_length(data)
      FROM given
      RETURNING owner, bytes
    ), counted AS (
      INSERT INTO event_owners
      SELECT owner, count(*), sum(bytes), 0 FROM added GROUP BY owner
      ON CONFLICT (owner) DO UPDATE SET
        events = event_owners.events + excluded.events, bytes = event_owners.bytes + excluded.bytes
    )
    UPDATE event_feed SET newest = before + (SELECT count(*) FROM added);
  END $$;

  CREATE FUNCTION forget_events(positions BIGINT[]) RETURNS VOID LANGUAGE plpgsql AS $$
  BEGIN
    WITH gone AS (
      DELETE FROM events WHERE position = ANY (positions) RETURNING owner, bytes
    ), per_owner AS (
      SELECT owner, count(*) AS events, sum(bytes) AS bytes FROM gone GROUP BY owner
    )
    UPDATE event_owners o SET events = o.events - g.events, bytes = o.bytes - g.bytes
    FROM per_owner g WHERE o.owner = g.owner;
  END $$;

  CREATE FUNCTION prune_events(
    oldest_ms DOUBLE PRECISION, max_per_owner BIGINT, max_events BIGINT, max_bytes BIGINT, at_once BIGINT
  ) RETURNS BOOLEAN LANGUAGE plpgsql AS $$
  DECLARE
    old BIGINT[];
    surplus BIGINT[];
    is_over BOOLEAN;
    loser event_owners;
  BEGIN
    PERFORM 1 FROM event_feed FOR UPDATE;
    old := ARRAY(
      SELECT position FROM (SELECT position, at_ms FROM events ORDER BY position LIMIT at_once) AS first
      WHERE at_ms < oldest_ms ORDER BY position
    );
    IF cardinality(old) > 0 THEN
      PERFORM forget_events(old);
      UPDATE event_feed SET removed = greatest(removed, old[cardinality(old)]);
      DELETE FROM event_owners
      WHERE events = 0 AND removed <= (SELECT f.removed FROM event_feed f);
    END IF;

    SELECT coalesce(sum(events), 0) > max_events OR coalesce(sum(bytes), 0) > max_bytes
      INTO is_over FROM event_owners;
    SELECT * INTO loser FROM event_owners WHERE is_over OR events > max_per_owner
      ORDER BY events > max_per_owner DESC, bytes DESC LIMIT 1;
    IF FOUND THEN
      surplus := ARRAY(
        SELECT position FROM events WHERE owner = loser.owner ORDER BY position
        LIMIT least(at_once, greatest(
          loser.events - max_per_owner, CASE WHEN is_over THEN ceil(loser.events / 16.0) ELSE 0 END))
      );
      PERFORM forget_events(surplus);
      UPDATE event_owners SET removed = surplus[cardinality(surplus)] WHERE owner = loser.owner;
    END IF;
    RETURN cardinality(old) < at_once AND coalesce(cardinality(surplus), 0) = 0;
  END $$;
`;

/**
 * Replaces the first version. Sessions are found by an array that a subquery builds: Postgres uses
 * the index however many sessions there are, with one plan for arrays of any length.
 */
export const APPEND_EVENTS = `
  CREATE OR REPLACE FUNCTION append_events(
    token BIGINT, times DOUBLE PRECISION[], owners TEXT[], session_ids TEXT[], types TEXT[], texts TEXT[]
  ) RETURNS VOID LANGUAGE plpgsql AS $$
  DECLARE
    before BIGINT;
    is_living BOOLEAN := is_living_daemon(token);
    lost TEXT[];
  BEGIN
    SELECT newest INTO before FROM event_feed FOR UPDATE;
    lost := ARRAY(
      SELECT id FROM sessions WHERE id = ANY (ARRAY(SELECT unnest(session_ids))) AND fence <> token
    );
    WITH added AS (
      INSERT INTO events
      SELECT before + row_number() OVER (ORDER BY place), at_ms, owner, session_id, type, data,
        ${ROW_BYTES} + length(owner) + length(type) + octet_length(data)
      FROM unnest(times, owners, session_ids, types, texts)
        WITH ORDINALITY AS e(at_ms, owner, session_id, type, data, place)
      WHERE session_id IS NULL OR (is_living AND session_id <> ALL (lost))
      RETURNING owner, bytes
    ), counted AS (
      INSERT INTO event_owners
      SELECT owner, count(*), sum(bytes), 0 FROM added GROUP BY owner
      ON CONFLICT (owner) DO UPDATE SET
        events = event_owners.events + excluded.events, bytes = event_owners.bytes + excluded.bytes
    )
    UPDATE event_feed SET newest = before + (SELECT count(*) FROM added);
  END $$;
`;
