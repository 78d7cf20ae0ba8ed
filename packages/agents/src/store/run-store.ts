/** The agent runs: the task, the result, and which process works on it. */
import type { DatabaseSync, StatementSync } from "node:sqlite";
import type { RunUsage } from "../runs/agent-executor.ts";
import { inTransaction } from "./database.ts";
import type { Migration } from "./database.ts";
import { listedColumns, omittedValues } from "./listed-values.ts";

export const RUN_MIGRATIONS: readonly Migration[] = [
  {
    name: "agent-runs-1",
    sql: `
      CREATE TABLE agent_runs (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        run_id TEXT NOT NULL UNIQUE,
        agent_name TEXT NOT NULL,
        status TEXT NOT NULL,
        model TEXT,
        task TEXT,
        input TEXT,
        output TEXT,
        text TEXT,
        error_code TEXT,
        error_message TEXT,
        steps INTEGER NOT NULL DEFAULT 0,
        input_tokens INTEGER NOT NULL DEFAULT 0,
        output_tokens INTEGER NOT NULL DEFAULT 0,
        workflow_run_id TEXT,
        workflow_step_id TEXT,
        parent_run_id TEXT,
        process_id TEXT NOT NULL,
        cancel_requested INTEGER NOT NULL DEFAULT 0,
        created_at TEXT NOT NULL,
        started_at TEXT,
        ended_at TEXT
      ) STRICT;
      CREATE INDEX agent_runs_by_agent ON agent_runs (agent_name, seq);
      CREATE INDEX agent_runs_unfinished ON agent_runs (process_id)
        WHERE status IN ('queued', 'running');
    `,
  },
];

export type StoredStatus = "queued" | "running" | "succeeded" | "failed" | "cancelled";

export interface StoredRun {
  readonly seq: number;
  readonly runId: string;
  readonly agentName: string;
  readonly status: StoredStatus;
  readonly model: string | undefined;
  readonly task: string | undefined;
  readonly input: unknown;
  readonly output: unknown;
  readonly text: string | undefined;
  readonly error: { readonly code: string; readonly message: string } | undefined;
  readonly steps: number;
  readonly usage: RunUsage;
  readonly workflowRunId: string | undefined;
  readonly parentRunId: string | undefined;
  readonly processId: string;
  readonly createdAt: string;
  readonly startedAt: string | undefined;
  readonly endedAt: string | undefined;
}

export interface NewRun {
  readonly runId: string;
  readonly agentName: string;
  readonly model: string | undefined;
  readonly task: string | undefined;
  readonly input: unknown;
  readonly workflowRunId: string | undefined;
  readonly workflowStepId: string | undefined;
  readonly parentRunId: string | undefined;
  readonly processId: string;
}

export interface RunEnd {
  readonly status: "succeeded" | "failed" | "cancelled";
  readonly text?: string | undefined;
  readonly output?: unknown;
  readonly error?: { readonly code: string; readonly message: string } | undefined;
}

export interface RunFilter {
  readonly agent?: string | undefined;
  readonly status?: StoredStatus | undefined;
  readonly limit: number;
  /** Only runs older than the one with this `seq`. */
  readonly before?: number | undefined;
}

/** A run in a list, and the values that the list leaves out. */
export interface ListedRun {
  readonly run: StoredRun;
  readonly omitted: Readonly<Record<string, true | number>>;
}

/** Columns whose values can be as long as a caller or a model likes. */
const LARGE = ["task", "input", "output", "text"];

export class RunStore {
  readonly #insert: StatementSync;
  readonly #get: StatementSync;
  readonly #start: StatementSync;
  readonly #progress: StatementSync;
  readonly #isRunning: StatementSync;
  readonly #isUnfinished: StatementSync;
  readonly #end: StatementSync;
  readonly #list: StatementSync;
  readonly #requestCancel: StatementSync;
  readonly #cancelRequests: StatementSync;
  readonly #abandoned: StatementSync;
  readonly #database: DatabaseSync;

  constructor(database: DatabaseSync) {
    this.#database = database;
    this.#insert = database.prepare(`
      INSERT INTO agent_runs (run_id, agent_name, status, model, task, input, workflow_run_id,
        workflow_step_id, parent_run_id, process_id, created_at)
      VALUES (:run, :agent, 'queued', :model, :task, :input, :workflow, :step, :parent, :process, :now)
      ON CONFLICT (run_id) DO NOTHING
    `);
    this.#get = database.prepare("SELECT * FROM agent_runs WHERE run_id = ?");
    // Only the process that owns a run changes it: another one may have considered it dead.
    this.#start = database.prepare(`
      UPDATE agent_runs SET status = 'running', started_at = :now
      WHERE run_id = :run AND process_id = :process AND status = 'queued'
    `);
    this.#progress = database.prepare(`
      UPDATE agent_runs SET steps = :steps, input_tokens = :input, output_tokens = :output
      WHERE run_id = :run AND process_id = :process AND status = 'running'
    `);
    this.#isRunning = database.prepare(
      "SELECT 1 FROM agent_runs WHERE run_id = ? AND process_id = ? AND status = 'running'",
    );
    this.#isUnfinished = database.prepare(
      "SELECT 1 FROM agent_runs WHERE run_id = ? AND process_id = ? AND status IN ('queued', 'running')",
    );
    this.#end = database.prepare(`
      UPDATE agent_runs SET status = :status, text = :text, output = :output, error_code = :code,
        error_message = :message, ended_at = :now
      WHERE run_id = :run AND process_id = :process AND status IN ('queued', 'running')
    `);
    this.#list = database.prepare(`
      SELECT seq, run_id, agent_name, status, model, error_code, error_message, steps, input_tokens,
        output_tokens, workflow_run_id, parent_run_id, process_id, created_at, started_at, ended_at,
        ${listedColumns(LARGE)}
      FROM agent_runs
      WHERE (:agent IS NULL OR agent_name = :agent) AND (:status IS NULL OR status = :status)
        AND (:before IS NULL OR seq < :before)
      ORDER BY seq DESC LIMIT :limit
    `);
    this.#requestCancel = database.prepare(`
      UPDATE agent_runs SET cancel_requested = 1
      WHERE run_id = ? AND status IN ('queued', 'running')
    `);
    this.#cancelRequests = database.prepare(`
      SELECT run_id FROM agent_runs
      WHERE process_id = ? AND status IN ('queued', 'running') AND cancel_requested = 1
    `);
    this.#abandoned = database.prepare(`
      UPDATE agent_runs SET status = 'failed', error_code = :code, error_message = :message, ended_at = :now
      WHERE status IN ('queued', 'running')
        AND process_id NOT IN (SELECT value FROM json_each(:alive))
      RETURNING run_id
    `);
  }

  /** False if a run with this id already exists. */
  create(run: NewRun): boolean {
    const { changes } = this.#insert.run({
      run: run.runId,
      agent: run.agentName,
      model: run.model ?? null,
      task: run.task ?? null,
      input: toJson(run.input),
      workflow: run.workflowRunId ?? null,
      step: run.workflowStepId ?? null,
      parent: run.parentRunId ?? null,
      process: run.processId,
      now: now(),
    });
    return changes === 1;
  }

  get(runId: string): StoredRun | undefined {
    const row = this.#get.get(runId);
    return row === undefined ? undefined : toRun(row);
  }

  /** False if this process no longer owns the run. */
  start(runId: string, processId: string): boolean {
    return this.#start.run({ run: runId, process: processId, now: now() }).changes === 1;
  }

  progress(runId: string, processId: string, steps: number, usage: RunUsage): void {
    this.#progress.run({
      run: runId,
      process: processId,
      steps,
      input: usage.inputTokens,
      output: usage.outputTokens,
    });
  }

  /** Writes about a run. False if it has ended or this process no longer owns it. */
  whileRunning(runId: string, processId: string, write: () => void): boolean {
    return inTransaction(this.#database, () => {
      if (this.#isRunning.get(runId, processId) === undefined) return false;
      write();
      return true;
    });
  }

  /** Whether the run has not ended and belongs to this process. */
  isUnfinished(runId: string, processId: string): boolean {
    return this.#isUnfinished.get(runId, processId) !== undefined;
  }

  /** False if the run has ended or this process no longer owns it. */
  end(runId: string, processId: string, end: RunEnd): boolean {
    const { changes } = this.#end.run({
      run: runId,
      process: processId,
      status: end.status,
      text: end.text ?? null,
      output: toJson(end.output),
      code: end.error?.code ?? null,
      message: end.error?.message ?? null,
      now: now(),
    });
    return changes === 1;
  }

  /** Newest first, without large values. */
  list({ agent, status, limit, before }: RunFilter): ListedRun[] {
    return this.#list
      .all({ agent: agent ?? null, status: status ?? null, before: before ?? null, limit })
      .map((row) => ({ run: toRun(row), omitted: omittedValues(row, LARGE) }));
  }

  /** The process that owns the run will see it. False if the run has ended. */
  requestCancel(runId: string): boolean {
    return this.#requestCancel.run(runId).changes === 1;
  }

  /** Runs of a process whose cancellation was requested. */
  cancelRequests(processId: string): string[] {
    return this.#cancelRequests.all(processId).map(({ run_id: id }) => String(id));
  }

  /**
   * Deletes runs that ended before a time, with their events, and returns how many. Runs of
   * workflows stay as long as their workflow run does.
   */
  prune(endedBefore: Date): number {
    const old = "SELECT run_id FROM agent_runs WHERE ended_at < ? AND workflow_run_id IS NULL";
    const before = endedBefore.toISOString();
    return inTransaction(this.#database, () => {
      this.#database.prepare(`DELETE FROM run_events WHERE run_id IN (${old})`).run(before);
      const removed = this.#database
        .prepare(`DELETE FROM agent_runs WHERE run_id IN (${old})`)
        .run(before);
      return Number(removed.changes);
    });
  }

  /**
   * Fails the runs of dead processes; each run is returned to only one caller. The live processes
   * are read in the same transaction, so a process that has just written keeps its runs.
   */
  failAbandoned(
    alive: () => readonly string[],
    { code, message }: { readonly code: string; readonly message: string },
  ): string[] {
    return inTransaction(this.#database, () =>
      this.#abandoned
        .all({ alive: JSON.stringify(alive()), code, message, now: now() })
        .map(({ run_id: id }) => String(id)),
    );
  }
}

type Row = Readonly<Record<string, unknown>>;

function toRun(row: Row): StoredRun {
  return {
    seq: Number(row["seq"]),
    runId: text(row["run_id"]) ?? "",
    agentName: text(row["agent_name"]) ?? "",
    status: row["status"] as StoredStatus,
    model: text(row["model"]),
    task: text(row["task"]),
    input: fromJson(row["input"]),
    output: fromJson(row["output"]),
    text: text(row["text"]),
    error:
      typeof row["error_code"] === "string"
        ? { code: row["error_code"], message: text(row["error_message"]) ?? "" }
        : undefined,
    steps: Number(row["steps"]),
    usage: {
      inputTokens: Number(row["input_tokens"]),
      outputTokens: Number(row["output_tokens"]),
    },
    workflowRunId: text(row["workflow_run_id"]),
    parentRunId: text(row["parent_run_id"]),
    processId: text(row["process_id"]) ?? "",
    createdAt: text(row["created_at"]) ?? "",
    startedAt: text(row["started_at"]),
    endedAt: text(row["ended_at"]),
  };
}

function text(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

function toJson(value: unknown): string | null {
  return value === undefined ? null : JSON.stringify(value);
}

function fromJson(value: unknown): unknown {
  return typeof value === "string" ? (JSON.parse(value) as unknown) : undefined;
}

function now(): string {
  return new Date().toISOString();
}
