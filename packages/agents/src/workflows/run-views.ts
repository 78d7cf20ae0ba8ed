/** Workflow runs as the HTTP API shows them. */
import type { WorkflowRunBody, WorkflowStepBody } from "../client/wire-types.ts";
import type { RunRecord, StepRecord } from "./engine/run-records.ts";
import type { ListedRun } from "./engine/run-store.ts";

export function runView(run: RunRecord, steps: readonly StepRecord[]): WorkflowRunBody {
  return {
    ...summary(run),
    input: run.input,
    output: run.output,
    steps: steps.map(stepView),
  };
}

/** Says what the list leaves out. */
export function runListView({ run, omitted }: ListedRun): WorkflowRunBody {
  return { ...summary(run), input: run.input, output: run.output, ...omitted };
}

function summary(run: ListedRun["run"]): WorkflowRunBody {
  return {
    run_id: run.runId,
    workflow_id: run.workflowId,
    status: run.status,
    reason: run.reason,
    error: run.error,
    cancel_requested: run.isCancelRequested ? true : undefined,
    created_at: run.createdAt,
    started_at: run.startedAt,
    ended_at: run.endedAt,
  };
}

function stepView(step: StepRecord): WorkflowStepBody {
  const { dueMs, deadlineMs, message } = step.data;
  return {
    id: step.stepId,
    path: step.path,
    type: step.type,
    status: step.status,
    attempt: step.attempt,
    next: step.next,
    output: step.output,
    error: step.error,
    message,
    due_at: timeOf(dueMs),
    deadline_at: timeOf(deadlineMs),
    agent_run_id: step.agentRunId,
    started_at: step.startedAt,
    ended_at: step.endedAt,
  };
}

function timeOf(ms: number | undefined): string | undefined {
  return ms === undefined ? undefined : new Date(ms).toISOString();
}
