/**
 * Workflow runs in the database: creates, finds and claims them, and records people's decisions.
 */
import type { DatabaseSync, StatementSync } from "node:sqlite";
import { inTransaction } from "../../store/database.ts";
import type { EventLog } from "../../store/event-log.ts";
import { listedColumns, omittedValues } from "../../store/listed-values.ts";
import type { ProcessRegistry } from "../../store/process-registry.ts";
import type { Clock } from "./clock.ts";
import { RunJournal } from "./run-journal.ts";
import type { Decision, RunRecord, RunStatus, StepRecord } from "./run-records.ts";
import { hasEnded, runFromRow, stepFromRow } from "./run-records.ts";

export interface NewRun {
  readonly runId: string;
  readonly workflowId: string;
  readonly file: string;
  readonly source: string;
  readonly input: unknown;
}

export interface RunFilter {
  readonly workflow?: string | undefined;
  readonly status?: RunStatus | undefined;
  readonly limit: number;
  /** Only runs older than the one with this number. */
  readonly before?: number | undefined;
}

/** A run in a list, and the values that the list leaves out. */
export interface ListedRun {
  readonly run: Omit<RunRecord, "file" | "source" | "owner" | "epoch" | "sandboxes">;
  readonly omitted: Readonly<Record<string, true | number>>;
}

const LARGE = ["input", "output"];

/** Which processes are alive. */
export type Processes = Pick<ProcessRegistry, "id" | "alive" | "onStall">;

/** A request that the state of a run does not allow. The message gives the state and what to do. */
export class RunConflict extends Error {
  override readonly name = "RunConflict";
}

/** Runs that have not ended, oldest first. */
const OPEN_RUNS = `
  SELECT run_id, owner FROM workflow_runs
  WHERE status IN ('queued', 'running', 'waiting_approval', 'needs_attention')
    AND (status <> 'needs_attention' OR cancel_requested = 1)
  ORDER BY number
`;

export class RunStore {
  readonly #database: DatabaseSync;
  readonly #events: EventLog;
  readonly #processes: Processes;
  readonly #clock: Clock;
  readonly #byId: StatementSync;
  readonly #steps: StatementSync;
  readonly #open: StatementSync;
  readonly #state: StatementSync;
  readonly #working: StatementSync;

  constructor(database: DatabaseSync, events: EventLog, processes: Processes, clock: Clock) {
    this.#database = database;
    this.#events = events;
    this.#processes = processes;
    this.#clock = clock;
    this.#byId = database.prepare("SELECT * FROM workflow_runs WHERE run_id = ?");
    this.#steps = database.prepare("SELECT * FROM workflow_steps WHERE run_id = ? ORDER BY number");
    this.#open = database.prepare(OPEN_RUNS);
    this.#working = database.prepare(`
      SELECT count(*) AS count FROM workflow_runs
      WHERE status IN ('queued', 'running') AND owner = ?
    `);
    this.#state = database.prepare(
      "SELECT status, owner, epoch, cancel_requested FROM workflow_runs WHERE run_id = ?",
    );
  }

  create(run: NewRun): void {
    inTransaction(this.#database, () => {
      this.#database
        .prepare(
          `INSERT INTO workflow_runs (run_id, workflow_id, file, source, status, input, created_at)
           VALUES (?, ?, ?, ?, 'queued', ?, ?)`,
        )
        .run(
          run.runId,
          run.workflowId,
          run.file,
          run.source,
          JSON.stringify(run.input ?? null),
          this.#now(),
        );
      this.#events.append(run.runId, "workflow_queued", { workflow_id: run.workflowId });
    });
  }

  get(runId: string): RunRecord | undefined {
    const row = this.#byId.get(runId);
    return row && runFromRow(row);
  }

  /** In the order in which they started. */
  steps(runId: string): StepRecord[] {
    return this.#steps.all(runId).map(stepFromRow);
  }

  /** Newest first, without large values. */
  list({ workflow, status, limit, before }: RunFilter): ListedRun[] {
    return this.#database
      .prepare(
        `SELECT number, run_id, workflow_id, status, reason, error, created_at, started_at, ended_at,
           cancel_requested, ${listedColumns(LARGE)}
         FROM workflow_runs
         WHERE (:workflow IS NULL OR workflow_id = :workflow)
           AND (:status IS NULL OR status = :status)
           AND (:before IS NULL OR number < :before)
         ORDER BY number DESC LIMIT :limit`,
      )
      .all({
        workflow: workflow ?? null,
        status: status ?? null,
        before: before ?? null,
        limit,
      })
      .map((row) => ({ run: runFromRow(row), omitted: omittedValues(row, LARGE) }));
  }

  /**
   * Takes runs that no live process has, at most `limit`. `isMine` tells which of this process's
   * runs it is working on; any other one was dropped by a failure and is taken again. `isWanted`
   * tells which runs it may take.
   */
  claim(
    limit: number,
    isMine: (runId: string) => boolean,
    isWanted: (runId: string) => boolean = () => true,
  ): readonly RunRecord[] {
    const waiting = (): string[] => this.#abandoned(isMine).filter(isWanted);
    if (limit <= 0 || waiting().length === 0) return [];
    const take = this.#database.prepare(
      `UPDATE workflow_runs SET owner = ?, epoch = epoch + 1 WHERE run_id = ? RETURNING *`,
    );
    return inTransaction(this.#database, () =>
      // Read again inside the transaction: another process may have been faster.
      waiting()
        .slice(0, limit)
        .map((runId) => runFromRow(take.get(this.#processes.id, runId) ?? {})),
    );
  }

  #abandoned(isMine: (runId: string) => boolean): string[] {
    const rows = this.#open.all();
    if (rows.length === 0) return [];
    const alive = new Set(this.#processes.alive());
    return rows
      .filter(({ run_id: runId, owner }) => {
        if (typeof owner !== "string") return true;
        return owner === this.#processes.id ? !isMine(String(runId)) : !alive.has(owner);
      })
      .map(({ run_id: runId }) => String(runId));
  }

  /** How many runs this process works on, not counting those that wait for an approval. */
  countWorking(): number {
    const row = this.#working.get(this.#processes.id);
    return Number(row?.["count"]);
  }

  journal(run: RunRecord): RunJournal {
    return new RunJournal({
      database: this.#database,
      events: this.#events,
      clock: this.#clock,
      run,
      owner: this.#processes.id,
    });
  }

  /** Cheaper than `get`, for frequent callers. */
  statusOf(runId: string): RunStatus | undefined {
    const row = this.#state.get(runId);
    return row && (String(row["status"]) as RunStatus);
  }

  /** Whether a run of this process must stop, and why. */
  stopFor(runId: string, epoch: number): "cancelled" | "lost" | undefined {
    const row = this.#state.get(runId);
    if (row?.["epoch"] !== epoch || row["owner"] !== this.#processes.id) return "lost";
    return row["cancel_requested"] === 1 ? "cancelled" : undefined;
  }

  /** Throws RunConflict. The process that has the run cancels it, or the next one that takes it. */
  requestCancel(runId: string): void {
    inTransaction(this.#database, () => {
      const run = this.#existing(runId);
      if (hasEnded(run.status))
        throw new RunConflict(
          `The run has already ${run.status === "cancelled" ? "been cancelled" : run.status}.`,
        );
      if (run.isCancelRequested) return;
      this.#database
        .prepare("UPDATE workflow_runs SET cancel_requested = 1 WHERE run_id = ?")
        .run(runId);
      this.#events.append(runId, "cancel_requested", {});
    });
  }

  /** Throws RunConflict. `stepId` may be omitted if only one step waits. */
  decide(runId: string, stepId: string | undefined, decision: Omit<Decision, "at">): void {
    inTransaction(this.#database, () => {
      const run = this.#existing(runId);
      const waiting = this.steps(runId).filter(
        ({ type, status, decision: given }) =>
          type === "approval" && status === "waiting" && given === undefined,
      );
      const named =
        stepId === undefined ? waiting : waiting.filter((step) => isNamed(step, stepId));
      const [step, another] = named;
      if (hasEnded(run.status) || step === undefined)
        throw new RunConflict(
          stepId === undefined || waiting.length === 0
            ? `No step of the run waits for an approval; the run is ${run.status}.`
            : `The step ${stepId} does not wait for an approval; waiting are ${waiting.map(({ path }) => path).join(", ")}.`,
        );
      if (another !== undefined)
        throw new RunConflict(
          `Several steps wait for an approval. Name one with step_id: ${named.map(({ path }) => path).join(", ")}.`,
        );
      const made: Decision = { ...decision, at: this.#now() };
      this.#database
        .prepare("UPDATE workflow_steps SET decision = ? WHERE run_id = ? AND path = ?")
        .run(JSON.stringify(made), runId, step.path);
      this.#events.append(runId, "approval_given", {
        step_id: step.stepId,
        path: step.path,
        approved: decision.approved,
        comment: decision.comment,
      });
    });
  }

  decision(runId: string, path: string): Decision | undefined {
    const row = this.#database
      .prepare("SELECT * FROM workflow_steps WHERE run_id = ? AND path = ?")
      .get(runId, path);
    return row && stepFromRow(row).decision;
  }

  /** Throws RunConflict. Interrupted steps run again. */
  resume(runId: string): void {
    inTransaction(this.#database, () => {
      const run = this.#existing(runId);
      if (run.status !== "needs_attention")
        throw new RunConflict(
          `Only a run that needs attention can be resumed; this one is ${run.status}.`,
        );
      if (run.isCancelRequested) throw new RunConflict("The run is being cancelled.");
      this.#database
        .prepare(
          "UPDATE workflow_steps SET status = 'interrupted' WHERE run_id = ? AND status = 'running'",
        )
        .run(runId);
      this.#database
        .prepare(
          `UPDATE workflow_runs SET status = 'queued', reason = NULL, owner = NULL
           WHERE run_id = ?`,
        )
        .run(runId);
      this.#events.append(runId, "workflow_resumed", { by: "person" });
    });
  }

  /** Deletes runs that ended before a time, with their events and those of their agents. */
  prune(endedBefore: Date): number {
    const old = "SELECT run_id FROM workflow_runs WHERE ended_at < :before";
    const agents = `SELECT run_id FROM agent_runs WHERE workflow_run_id IN (${old})`;
    const before = { before: endedBefore.toISOString() };
    return inTransaction(this.#database, () => {
      for (const which of [agents, old])
        this.#database.prepare(`DELETE FROM run_events WHERE run_id IN (${which})`).run(before);
      this.#database.prepare(`DELETE FROM agent_runs WHERE run_id IN (${agents})`).run(before);
      const { changes } = this.#database
        .prepare("DELETE FROM workflow_runs WHERE ended_at < :before")
        .run(before);
      return Number(changes);
    });
  }

  #existing(runId: string): RunRecord {
    const run = this.get(runId);
    if (run === undefined) throw new RunConflict("There is no such run.");
    return run;
  }

  #now(): string {
    return new Date(this.#clock.nowMs()).toISOString();
  }
}

function isNamed({ stepId, path }: StepRecord, name: string): boolean {
  return stepId === name || path === name;
}
