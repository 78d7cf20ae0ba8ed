/** Records what happens in a run, as long as this process owns it. */
import type { DatabaseSync, StatementSync } from "node:sqlite";
import { inTransaction } from "../../store/database.ts";
import type { EventLog } from "../../store/event-log.ts";
import type { Clock } from "./clock.ts";
import { MAX_EVENT_OUTPUT_BYTES } from "./limits.ts";
import type { RunRecord, StepData, StepRecord } from "./run-records.ts";
import type { Failure } from "./stops.ts";
import { RunStop } from "./stops.ts";

export interface JournalOptions {
  readonly database: DatabaseSync;
  readonly events: EventLog;
  readonly clock: Clock;
  readonly run: RunRecord;
  readonly owner: string;
}

export interface StepStart {
  readonly path: string;
  /** Counts the steps of the run. */
  readonly number: number;
  readonly stepId: string;
  readonly type: string;
  readonly attempt: number;
  readonly data: StepData;
  readonly status: "running" | "waiting";
  readonly agentRunId?: string | undefined;
}

export type RunEnd =
  | { readonly status: "succeeded"; readonly output: unknown }
  | { readonly status: "failed"; readonly error: Failure }
  | { readonly status: "cancelled" };

export class RunJournal {
  readonly #database: DatabaseSync;
  readonly #events: EventLog;
  readonly #clock: Clock;
  readonly #runId: string;
  readonly #epoch: number;
  readonly #owner: string;
  readonly #isOurs: StatementSync;
  readonly #begin: StatementSync;
  readonly #finish: StatementSync;

  constructor({ database, events, clock, run, owner }: JournalOptions) {
    this.#database = database;
    this.#events = events;
    this.#clock = clock;
    this.#runId = run.runId;
    this.#epoch = run.epoch;
    this.#owner = owner;
    this.#isOurs = database.prepare(
      "SELECT 1 FROM workflow_runs WHERE run_id = ? AND owner = ? AND epoch = ?",
    );
    this.#begin = database.prepare(`
      INSERT INTO workflow_steps
        (run_id, path, number, step_id, type, status, attempt, data, agent_run_id, started_at)
      VALUES (:run, :path, :number, :step, :type, :status, :attempt, :data, :agentRun, :now)
      ON CONFLICT (run_id, path) DO UPDATE SET
        status = excluded.status, attempt = excluded.attempt, data = excluded.data,
        agent_run_id = excluded.agent_run_id, error = NULL
    `);
    this.#finish = database.prepare(`
      UPDATE workflow_steps
      SET status = :status, output = :output, error = :error, next = :next, ended_at = :now
      WHERE run_id = :run AND path = :path
    `);
  }

  runStarted(isResumed: boolean): void {
    this.#write(() => {
      this.#database
        .prepare(
          `UPDATE workflow_runs SET status = 'running', started_at = coalesce(started_at, ?)
           WHERE run_id = ?`,
        )
        .run(this.#now(), this.#runId);
      this.#showWaiting();
      this.#event(isResumed ? "workflow_resumed" : "workflow_started", { process_id: this.#owner });
    });
  }

  /** Recorded before the step does anything. */
  stepStarted(start: StepStart): void {
    this.#write(() => {
      this.#begin.run({
        run: this.#runId,
        path: start.path,
        number: start.number,
        step: start.stepId,
        type: start.type,
        status: start.status,
        attempt: start.attempt,
        data: JSON.stringify(start.data),
        agentRun: start.agentRunId ?? null,
        now: this.#now(),
      });
      this.#event("step_started", {
        step_id: start.stepId,
        path: start.path,
        step_type: start.type,
        attempt: start.attempt,
        agent_run_id: start.agentRunId,
      });
      if (start.type === "approval") {
        this.#event("approval_requested", {
          step_id: start.stepId,
          path: start.path,
          message: start.data.message,
        });
        this.#showWaiting();
      }
    });
  }

  /** `sandboxes` are those that finished steps have used so far. */
  stepSucceeded(
    step: Pick<StepRecord, "path" | "stepId" | "type">,
    result: { readonly output: unknown; readonly next: string | undefined },
    sandboxes?: Readonly<Record<string, string>>,
  ): void {
    const output = JSON.stringify(result.output ?? null);
    this.#write(() => {
      this.#end(step.path, "succeeded", { output, next: result.next });
      if (sandboxes !== undefined)
        this.#database
          .prepare("UPDATE workflow_runs SET sandboxes = ? WHERE run_id = ?")
          .run(JSON.stringify(sandboxes), this.#runId);
      this.#event("step_ended", {
        step_id: step.stepId,
        path: step.path,
        status: "succeeded",
        ...shownOutput(output, result.output),
        next: result.next,
      });
      if (step.type === "approval") this.#showWaiting();
    });
  }

  stepFailed(
    step: Pick<StepRecord, "path" | "stepId" | "type">,
    status: "failed" | "cancelled",
    error: Failure,
  ): void {
    this.#write(() => {
      this.#end(step.path, status, { error });
      this.#event("step_ended", { step_id: step.stepId, path: step.path, status, error });
      if (step.type === "approval") this.#showWaiting();
    });
  }

  retryScheduled(
    step: Pick<StepRecord, "path" | "stepId" | "attempt">,
    error: Failure,
    data: StepData,
  ): void {
    this.#write(() => {
      this.#database
        .prepare(
          `UPDATE workflow_steps SET status = 'retrying', error = ?, data = ?
           WHERE run_id = ? AND path = ?`,
        )
        .run(JSON.stringify(error), JSON.stringify(data), this.#runId, step.path);
      this.#event("step_retry", {
        step_id: step.stepId,
        path: step.path,
        attempt: step.attempt,
        error,
        retry_at: new Date(data.dueMs ?? 0).toISOString(),
      });
    });
  }

  /** The run waits for a person and needs no process. */
  needsAttention(reason: string, sandboxes: Readonly<Record<string, string>>): void {
    this.#write(() => {
      this.#database
        .prepare(
          `UPDATE workflow_runs
           SET status = 'needs_attention', reason = ?, owner = NULL, sandboxes = ?
           WHERE run_id = ?`,
        )
        .run(reason, JSON.stringify(sandboxes), this.#runId);
      this.#event("needs_attention", { reason });
    });
  }

  runEnded(end: RunEnd): void {
    const output = "output" in end ? JSON.stringify(end.output ?? null) : null;
    const error = "error" in end ? end.error : undefined;
    this.#write(() => {
      if (end.status === "cancelled")
        this.#database
          .prepare(
            `UPDATE workflow_steps SET status = 'cancelled', ended_at = ?
             WHERE run_id = ? AND status IN ('running', 'waiting', 'retrying', 'interrupted')`,
          )
          .run(this.#now(), this.#runId);
      this.#database
        .prepare(
          `UPDATE workflow_runs
           SET status = ?, reason = NULL, output = ?, error = ?, ended_at = ?, owner = NULL
           WHERE run_id = ?`,
        )
        .run(
          end.status,
          output,
          error === undefined ? null : JSON.stringify(error),
          this.#now(),
          this.#runId,
        );
      this.#event("workflow_ended", {
        status: end.status,
        ...(output !== null && shownOutput(output, "output" in end ? end.output : null)),
        error,
      });
    });
  }

  /** Throws RunStop if another process has the run. */
  confirm(): void {
    this.#write(() => undefined);
  }

  /** Releases the run for the next process that polls for one. */
  release(): void {
    this.#write(() =>
      this.#database
        .prepare("UPDATE workflow_runs SET owner = NULL WHERE run_id = ?")
        .run(this.#runId),
    );
  }

  #end(
    path: string,
    status: string,
    result: {
      readonly output?: string;
      readonly next?: string | undefined;
      readonly error?: Failure;
    },
  ): void {
    this.#finish.run({
      run: this.#runId,
      path,
      status,
      output: result.output ?? null,
      error: result.error === undefined ? null : JSON.stringify(result.error),
      next: result.next ?? null,
      now: this.#now(),
    });
  }

  /** The run waits for an approval as long as one of its steps does. */
  #showWaiting(): void {
    this.#database
      .prepare(
        `UPDATE workflow_runs SET status = CASE WHEN EXISTS (
           SELECT 1 FROM workflow_steps
           WHERE run_id = :run AND type = 'approval' AND status = 'waiting'
         ) THEN 'waiting_approval' ELSE 'running' END
         WHERE run_id = :run`,
      )
      .run({ run: this.#runId });
  }

  #event(type: string, data: object): void {
    this.#events.append(this.#runId, type, data);
  }

  #now(): string {
    return new Date(this.#clock.nowMs()).toISOString();
  }

  /**
   * SECURITY: a process that was stopped and continues believes that it still owns the run.
   * Ownership is read in the transaction that writes, so that two processes never both continue a
   * run. Guarded by two-processes.test.ts.
   */
  #write(work: () => void): void {
    inTransaction(this.#database, () => {
      if (this.#isOurs.get(this.#runId, this.#owner, this.#epoch) === undefined)
        throw new RunStop("lost", "another process has the run");
      work();
    });
  }
}

/** An output that would make the event too large is left out, and the event says so. */
function shownOutput(written: string, output: unknown): object {
  const bytes = Buffer.byteLength(written);
  return bytes <= MAX_EVENT_OUTPUT_BYTES
    ? { output: output ?? null }
    : { output_omitted: true, output_bytes: bytes };
}
