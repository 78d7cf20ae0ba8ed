/**
 * Functions that store output in Postgres: each call is one round trip, and has no effect with the
 * token of a daemon that lost the session.
 */
export const OUTPUT_FUNCTIONS = `
  CREATE TABLE outputs (
    session_id    TEXT COLLATE "C" NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    exec_id       TEXT COLLATE "C" NOT NULL,
    made          BIGINT GENERATED ALWAYS AS IDENTITY,
    end_offset    BIGINT NOT NULL DEFAULT 0,
    next_seq      BIGINT NOT NULL DEFAULT 0,
    stdout_bytes  BIGINT NOT NULL DEFAULT 0,
    stderr_bytes  BIGINT NOT NULL DEFAULT 0,
    dropped_bytes BIGINT NOT NULL DEFAULT 0,
    kept_bytes    BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (session_id, exec_id)
  ) WITH (fillfactor = 50);

  CREATE TABLE output_chunks (
    session_id   TEXT COLLATE "C" NOT NULL,
    exec_id      TEXT COLLATE "C" NOT NULL,
    first_offset BIGINT NOT NULL,
    seq          BIGINT NOT NULL,
    stream       TEXT NOT NULL,
    timestamp_ms DOUBLE PRECISION NOT NULL,
    bytes        BYTEA NOT NULL,
    PRIMARY KEY (session_id, exec_id, first_offset),
    FOREIGN KEY (session_id, exec_id) REFERENCES outputs ON DELETE CASCADE
  );

  CREATE FUNCTION is_served(session TEXT, token BIGINT) RETURNS BOOLEAN LANGUAGE plpgsql AS $$
  BEGIN
    PERFORM 1 FROM sessions WHERE id = session AND fence = token FOR SHARE;
    RETURN FOUND;
  END $$;

  CREATE FUNCTION open_output(session TEXT, exec TEXT, token BIGINT, max_session BIGINT)
  RETURNS SETOF outputs LANGUAGE plpgsql AS $$
  BEGIN
    IF NOT is_served(session, token) THEN RETURN; END IF;
    INSERT INTO outputs (session_id, exec_id) VALUES (session, exec) ON CONFLICT DO NOTHING;
    DELETE FROM outputs USING (
      SELECT exec_id, sum(kept_bytes) OVER (ORDER BY made DESC) AS so_far
      FROM outputs WHERE session_id = session
    ) AS newest
    WHERE outputs.session_id = session AND outputs.exec_id = newest.exec_id
      AND newest.so_far > max_session AND outputs.exec_id <> exec
      AND NOT EXISTS (SELECT 1 FROM execs WHERE execs.session_id = session
        AND execs.id = outputs.exec_id AND status <> 'done');
    RETURN QUERY SELECT * FROM outputs WHERE session_id = session AND exec_id = exec;
  END $$;

  CREATE FUNCTION append_output(
    session TEXT, exec TEXT, token BIGINT, at_offset BIGINT, to_stream TEXT,
    at_ms DOUBLE PRECISION, new_bytes BYTEA
  ) RETURNS BOOLEAN LANGUAGE plpgsql AS $$
  DECLARE size BIGINT := length(new_bytes); new_seq BIGINT;
  BEGIN
    IF NOT is_served(session, token) THEN RETURN FALSE; END IF;
    UPDATE outputs SET end_offset = end_offset + size, kept_bytes = kept_bytes + size,
      next_seq = next_seq + 1,
      stdout_bytes = stdout_bytes + CASE to_stream WHEN 'stdout' THEN size ELSE 0 END,
      stderr_bytes = stderr_bytes + CASE to_stream WHEN 'stdout' THEN 0 ELSE size END
    WHERE session_id = session AND exec_id = exec AND end_offset = at_offset
    RETURNING next_seq - 1 INTO new_seq;
    IF NOT FOUND THEN RETURN FALSE; END IF;
    INSERT INTO output_chunks VALUES (session, exec, at_offset, new_seq, to_stream, at_ms, new_bytes);
    RETURN TRUE;
  END $$;

  CREATE FUNCTION skip_output(session TEXT, exec TEXT, token BIGINT, at_offset BIGINT, size BIGINT)
  RETURNS BOOLEAN LANGUAGE plpgsql AS $$
  BEGIN
    IF NOT is_served(session, token) THEN RETURN FALSE; END IF;
    UPDATE outputs SET end_offset = end_offset + size, dropped_bytes = dropped_bytes + size
    WHERE session_id = session AND exec_id = exec AND end_offset = at_offset;
    RETURN FOUND;
  END $$;

  CREATE FUNCTION drop_output(
    session TEXT, exec TEXT, token BIGINT, from_offset BIGINT, up_to BIGINT
  ) RETURNS BIGINT LANGUAGE plpgsql AS $$
  DECLARE size BIGINT;
  BEGIN
    IF NOT is_served(session, token) THEN RETURN NULL; END IF;
    WITH gone AS (
      DELETE FROM output_chunks WHERE session_id = session AND exec_id = exec
        AND first_offset >= from_offset AND first_offset < up_to RETURNING length(bytes) AS n
    ) SELECT coalesce(sum(n), 0) INTO size FROM gone;
    UPDATE outputs SET dropped_bytes = dropped_bytes + size, kept_bytes = kept_bytes - size
    WHERE session_id = session AND exec_id = exec;
    RETURN size;
  END $$;
`;
