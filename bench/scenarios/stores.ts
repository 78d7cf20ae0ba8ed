/** Commands with the sessions in Postgres, a thousand of them, compared with SQLite. */
import pg from "pg";
import { PostgresCluster } from "../../tests/support/postgres-cluster.ts";
import type { BenchContext, Scenario } from "../context.ts";
import { inARow, interleave, timeUs } from "../interleave.ts";
import type { Series } from "../series.ts";

const SESSIONS = 1000;
const IN_A_ROW = 10;

export const stores: Scenario = {
  name: "stores",
  what: "`true` over HTTP with the sessions in SQLite, and among a thousand in Postgres",
  run: measure,
};

async function measure(context: BenchContext): Promise<Series[]> {
  await using cluster = await PostgresCluster.start([]);
  const url = await cluster.createDatabase();
  await using inPostgres = await context.startDaemon({ DATABASE_URL: url });
  await using inSqlite = await context.startDaemon();
  const [postgres, sqlite] = [await inPostgres.open(), await inSqlite.open()];
  await addSessions(url);
  return await interleave(
    {
      "SQLite, HTTP, shell, true": inARow(IN_A_ROW, () => timeUs(() => sqlite.exec("true"))),
      "Postgres, HTTP, shell, true": inARow(IN_A_ROW, () => timeUs(() => postgres.exec("true"))),
      "HTTP, healthz": inARow(IN_A_ROW, () =>
        timeUs(() => inPostgres.client.text("GET", "/healthz")),
      ),
    },
    {
      scenario: stores.name,
      rounds: context.quick ? 30 : 200,
      warmUpRounds: context.quick ? 20 : 100,
      signal: context.signal,
      onRound: (round, rounds) => {
        if (round % 50 === 0) context.progress(`round ${round} of ${rounds}`);
      },
    },
  );
}

/** Active ones, as of another daemon, each with a few ended commands. */
async function addSessions(url: string): Promise<void> {
  const client = new pg.Client(url);
  await client.connect();
  try {
    await client.query(`
      INSERT INTO sessions
      SELECT (jsonb_populate_record(one, jsonb_build_object(
        'id', 'ses_bench_' || n, 'status', 'running', 'place', 'oci:elsewhere', 'fence', 999999,
        'ended_at_ms', NULL))).*
      FROM (SELECT sessions FROM sessions LIMIT 1) AS first (one), generate_series(1, ${SESSIONS}) AS n;
      INSERT INTO execs (id, session_id, owner, status, mode, command, started_at_ms, stdout_bytes,
        stderr_bytes, dropped_bytes, shell_restarted, timeout_clamped, background, background_bytes)
      SELECT 'exe_' || m, id, owner, 'done', 'shell', '"true"', m, 0, 0, 0, 0, 0, 0, 0
      FROM sessions, generate_series(1, 10) AS m WHERE id LIKE 'ses_bench_%';
      ANALYZE;
    `);
  } finally {
    await client.end();
  }
}
