/** The database records of runs and steps. */
import type { SQLOutputValue } from "node:sqlite";
import type { Failure } from "./stops.ts";

export type RunStatus =
  | "queued"
  | "running"
  | "waiting_approval"
  | "needs_attention"
  | "succeeded"
  | "failed"
  | "cancelled";

export const RUN_STATUSES: readonly RunStatus[] = [
  "queued",
  "running",
  "waiting_approval",
  "needs_attention",
  "succeeded",
  "failed",
  "cancelled",
];

const ENDED: ReadonlySet<RunStatus> = new Set<RunStatus>(["succeeded", "failed", "cancelled"]);

/** A run that no longer exists has ended, too. */
export function hasEnded(status: RunStatus | undefined): boolean {
  return status === undefined || ENDED.has(status);
}

export interface RunRecord {
  readonly number: number;
  readonly runId: string;
  readonly workflowId: string;
  readonly file: string;
  readonly source: string;
  readonly status: RunStatus;
  readonly reason: string | undefined;
  readonly input: unknown;
  readonly output: unknown;
  readonly error: Failure | undefined;
  readonly createdAt: string;
  readonly startedAt: string | undefined;
  readonly endedAt: string | undefined;
  readonly owner: string | undefined;
  readonly epoch: number;
  readonly isCancelRequested: boolean;
  readonly sandboxes: Readonly<Record<string, string>>;
}

export type StepStatus =
  | "running"
  /** For a point in time, or for a decision. */
  | "waiting"
  /** Between two attempts. */
  | "retrying"
  /** It was running when its process died, and may run again. */
  | "interrupted"
  | "succeeded"
  | "failed"
  /** Stopped because of another step, or together with the run. */
  | "cancelled";

export interface StepRecord {
  readonly path: string;
  readonly number: number;
  readonly stepId: string;
  readonly type: string;
  readonly status: StepStatus;
  readonly attempt: number;
  readonly next: string | undefined;
  readonly output: unknown;
  readonly error: Failure | undefined;
  readonly data: StepData;
  readonly decision: Decision | undefined;
  readonly agentRunId: string | undefined;
  readonly startedAt: string;
  readonly endedAt: string | undefined;
}

/** What a step needs to continue after a restart. */
export interface StepData {
  /** When a timer goes off or a next attempt is due. */
  readonly dueMs?: number;
  /** The deadline of the step. */
  readonly deadlineMs?: number;
  /** The items of a foreach. */
  readonly items?: readonly unknown[];
  /** The question for a person. */
  readonly message?: string;
  /** How many attempts have failed. */
  readonly failures?: number;
}

export interface Decision {
  readonly approved: boolean;
  readonly comment?: string | undefined;
  readonly at: string;
}

type Row = Readonly<Record<string, SQLOutputValue>>;

export function runFromRow(row: Row): RunRecord {
  return {
    number: Number(row["number"]),
    runId: String(row["run_id"]),
    workflowId: String(row["workflow_id"]),
    file: String(row["file"]),
    source: String(row["source"]),
    status: String(row["status"]) as RunStatus,
    reason: textOf(row["reason"]),
    input: jsonOf(row["input"]),
    output: jsonOf(row["output"]),
    error: jsonOf(row["error"]) as Failure | undefined,
    createdAt: String(row["created_at"]),
    startedAt: textOf(row["started_at"]),
    endedAt: textOf(row["ended_at"]),
    owner: textOf(row["owner"]),
    epoch: Number(row["epoch"]),
    isCancelRequested: row["cancel_requested"] === 1,
    sandboxes: (jsonOf(row["sandboxes"]) ?? {}) as Readonly<Record<string, string>>,
  };
}

export function stepFromRow(row: Row): StepRecord {
  return {
    path: String(row["path"]),
    number: Number(row["number"]),
    stepId: String(row["step_id"]),
    type: String(row["type"]),
    status: String(row["status"]) as StepStatus,
    attempt: Number(row["attempt"]),
    next: textOf(row["next"]),
    output: jsonOf(row["output"]),
    error: jsonOf(row["error"]) as Failure | undefined,
    data: jsonOf(row["data"]) ?? {},
    decision: jsonOf(row["decision"]) as Decision | undefined,
    agentRunId: textOf(row["agent_run_id"]),
    startedAt: String(row["started_at"]),
    endedAt: textOf(row["ended_at"]),
  };
}

function textOf(value: SQLOutputValue | undefined): string | undefined {
  return typeof value === "string" ? value : undefined;
}

function jsonOf(value: SQLOutputValue | undefined): unknown {
  return typeof value === "string" ? (JSON.parse(value) as unknown) : undefined;
}
