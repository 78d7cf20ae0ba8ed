/** The tables of workflow runs. */
import type { Migration } from "../../store/database.ts";

export const WORKFLOW_MIGRATIONS: readonly Migration[] = [
  {
    name: "workflows-1",
    sql: `
      CREATE TABLE workflow_runs (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        run_id TEXT NOT NULL UNIQUE,
        workflow_id TEXT NOT NULL,
        file TEXT NOT NULL,
        -- The file as it was at the start: a run does not change when its file does.
        source TEXT NOT NULL,
        status TEXT NOT NULL,
        -- Why a person is needed.
        reason TEXT,
        input TEXT NOT NULL,
        output TEXT,
        error TEXT,
        created_at TEXT NOT NULL,
        started_at TEXT,
        ended_at TEXT,
        -- The process that has the run, and how often it was taken: only the last taker may write.
        owner TEXT,
        epoch INTEGER NOT NULL DEFAULT 0,
        cancel_requested INTEGER NOT NULL DEFAULT 0,
        -- The sessions that finished steps have used: {"name": "id"}.
        sandboxes TEXT NOT NULL DEFAULT '{}'
      ) STRICT;
      CREATE INDEX workflow_runs_open ON workflow_runs (number)
        WHERE status IN ('queued', 'running', 'waiting_approval', 'needs_attention');
      CREATE INDEX workflow_runs_by_workflow ON workflow_runs (workflow_id, number);

      CREATE TABLE workflow_steps (
        run_id TEXT NOT NULL REFERENCES workflow_runs (run_id) ON DELETE CASCADE,
        -- The step, the count of its executions, and the steps around it: each:1/[3]/check:1
        path TEXT NOT NULL,
        number INTEGER NOT NULL,
        step_id TEXT NOT NULL,
        type TEXT NOT NULL,
        -- running, waiting, retrying, interrupted, succeeded, failed or cancelled
        status TEXT NOT NULL,
        attempt INTEGER NOT NULL,
        next TEXT,
        output TEXT,
        error TEXT,
        -- What the step needs to go on after a restart.
        data TEXT NOT NULL DEFAULT '{}',
        decision TEXT,
        agent_run_id TEXT,
        started_at TEXT NOT NULL,
        ended_at TEXT,
        PRIMARY KEY (run_id, path)
      ) STRICT, WITHOUT ROWID;
    `,
  },
];
