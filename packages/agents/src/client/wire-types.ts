/** The agent service's HTTP API. Both the service and its client use these types. */

export interface AgentSummary {
  /** The file's name without `.prompt`. */
  readonly name: string;
  /** `metadata.name`, by which the agent can also be run. */
  readonly title?: string | undefined;
  readonly description?: string | undefined;
  /** Relative to the served directory. */
  readonly file: string;
  readonly model?: string | undefined;
  /** `none` for an agent without a sandbox. */
  readonly mode: "none" | "compute" | "code";
  /** Why the agent cannot be run: file, line, column and problem. */
  readonly error?: string | undefined;
}

export interface AgentDetails extends AgentSummary {
  readonly input_schema?: object | undefined;
  readonly output_schema?: object | undefined;
  /** The effective `sandbox:` block. */
  readonly sandbox?: unknown;
  readonly tools: readonly string[];
  readonly agents: readonly string[];
  readonly mcp: readonly string[];
  readonly config?: object | undefined;
  readonly max_steps: number;
  readonly timeout_seconds: number;
  /** The template below the frontmatter. */
  readonly prompt: string;
}

export type RunStatus = "queued" | "running" | "succeeded" | "failed" | "cancelled";

export interface UsageBody {
  readonly input_tokens: number;
  readonly output_tokens: number;
}

export interface RunFailure {
  readonly code: string;
  readonly message: string;
}

export interface RunBody {
  readonly run_id: string;
  readonly agent_name: string;
  readonly status: RunStatus;
  readonly task?: string | undefined;
  readonly input?: unknown;
  readonly output?: unknown;
  readonly text?: string | undefined;
  readonly error?: RunFailure | undefined;
  readonly model?: string | undefined;
  readonly steps: number;
  readonly usage: UsageBody;
  readonly workflow_run_id?: string | undefined;
  readonly parent_run_id?: string | undefined;
  readonly created_at: string;
  readonly started_at?: string | undefined;
  readonly ended_at?: string | undefined;
}

type LargeField = "task" | "input" | "output" | "text";

/** A run in a list. For values of more than 16 KiB, the list has the size instead. */
export type ListedRunBody = RunBody & {
  readonly [Field in LargeField as `${Field}_omitted`]?: true;
} & { readonly [Field in LargeField as `${Field}_bytes`]?: number };

export interface RunPage {
  readonly runs: readonly ListedRunBody[];
  readonly next_cursor?: string | undefined;
}

/** One event of an agent run or workflow run. Its other fields depend on `type`. */
export interface RunEventBody {
  readonly seq: number;
  readonly time: string;
  readonly type: string;
  readonly [field: string]: unknown;
}

export interface EventPage {
  readonly events: readonly RunEventBody[];
  /** What to pass as `cursor` for the next page. */
  readonly next_cursor: number;
  /** No further events follow these. */
  readonly done: boolean;
}

export interface WorkflowSummary {
  readonly id: string;
  readonly name?: string | undefined;
  readonly description?: string | undefined;
  readonly file: string;
  readonly steps: number;
  readonly error?: string | undefined;
}

export interface WorkflowDetails extends Omit<WorkflowSummary, "steps"> {
  readonly steps: readonly unknown[];
  /** A Mermaid diagram, if requested. */
  readonly graph?: string | undefined;
  readonly [field: string]: unknown;
}

export type WorkflowRunStatus = RunStatus | "waiting_approval" | "needs_attention";

export interface WorkflowStepBody {
  readonly id: string;
  readonly type: string;
  readonly status: string;
  readonly attempt: number;
  readonly output?: unknown;
  readonly error?: RunFailure | undefined;
  readonly started_at?: string | undefined;
  readonly ended_at?: string | undefined;
  readonly agent_run_id?: string | undefined;
  readonly [field: string]: unknown;
}

export interface WorkflowRunBody {
  readonly run_id: string;
  readonly workflow_id: string;
  readonly status: WorkflowRunStatus;
  readonly input?: unknown;
  readonly output?: unknown;
  readonly error?: RunFailure | undefined;
  readonly steps?: readonly WorkflowStepBody[] | undefined;
  readonly created_at: string;
  readonly started_at?: string | undefined;
  readonly ended_at?: string | undefined;
  readonly [field: string]: unknown;
}

export interface WorkflowRunPage {
  readonly runs: readonly WorkflowRunBody[];
  readonly next_cursor?: string | undefined;
}
