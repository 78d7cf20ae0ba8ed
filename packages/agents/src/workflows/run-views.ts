/** Workflow runs as the HTTP API shows them. */
import type { WorkflowRunBody, WorkflowStepBody } from "../client/wire-types.ts";
import type { RunRecord, StepRecord } from "./engine/run-records.ts";

export function runView(run: RunRecord, steps: readonly StepRecord[]): WorkflowRunBody {
  return {
    ...summary(run),
    input: run.input,
    output: run.output,
    steps: steps.map(stepView),
  };
}

/** Leaves out large inputs and outputs; the entry says so. */
export function runListView(run: RunRecord): WorkflowRunBody {
  return {
    ...summary(run),
    ...shortened("input", run.input),
    ...shortened("output", run.output),
  };
}

const LISTED_BYTES = 16 * 1024;

function shortened(name: "input" | "output", value: unknown): Record<string, unknown> {
  if (value === undefined) return {};
  const bytes = Buffer.byteLength(JSON.stringify(value));
  return bytes <= LISTED_BYTES
    ? { [name]: value }
    : { [`${name}_omitted`]: true, [`${name}_bytes`]: bytes };
}

function summary(run: RunRecord): WorkflowRunBody {
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
