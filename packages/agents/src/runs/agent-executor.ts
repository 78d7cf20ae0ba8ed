/** The port through which workflows and the service run agents. */
import type { SandboxScope } from "@sandkasten/tools";

export interface AgentExecutor {
  /** Runs an agent to its end. Throws AgentRunError. */
  execute(request: AgentRunRequest): Promise<AgentRunResult>;
  /** The result of a successful run, for a caller that missed its end. */
  finished(runId: string | undefined): AgentRunResult | undefined;
  /** Whether a runnable agent has this file name or `metadata.name`. */
  has(agentName: string): boolean;
}

export interface AgentRunRequest {
  readonly agentName: string;
  /** The value of `{{userInput}}`. */
  readonly task?: string | undefined;
  /** Structured input, checked against the agent's input schema. */
  readonly input?: unknown;
  /** Chosen by the caller so that a retry can be recognized; generated if absent. */
  readonly runId?: string | undefined;
  /**
   * Set if the agent runs as a step. It then uses the workflow's sandboxes unless it is isolated.
   */
  readonly workflow?:
    | { readonly runId: string; readonly stepId: string; readonly scope: SandboxScope }
    | undefined;
  /** Cancels the run. */
  readonly signal?: AbortSignal | undefined;
}

export interface AgentRunResult {
  readonly runId: string;
  /** The model's last text. */
  readonly text: string;
  /** The value that the output schema describes; the text if the agent has no schema. */
  readonly output: unknown;
  /** How many turns the model took. */
  readonly steps: number;
  readonly usage: RunUsage;
}

export interface RunUsage {
  readonly inputTokens: number;
  readonly outputTokens: number;
}

export type AgentRunErrorCode =
  | "AGENT_NOT_FOUND"
  | "AGENT_INVALID"
  | "RUN_EXISTS"
  | "TOO_MANY_RUNS"
  | "INVALID_INPUT"
  | "INVALID_OUTPUT"
  | "MODEL_NOT_CONFIGURED"
  | "MODEL_FAILED"
  | "MODEL_UNAVAILABLE"
  | "TOOLS_FAILED"
  | "DAEMON_UNAVAILABLE"
  | "MAX_STEPS_EXCEEDED"
  | "OUTPUT_LIMIT_EXCEEDED"
  | "TIMEOUT"
  | "CANCELLED"
  | "PROCESS_ENDED"
  | "INTERNAL_ERROR";

/** The same run may succeed later without changes. */
const RETRYABLE: ReadonlySet<AgentRunErrorCode> = new Set([
  "MODEL_UNAVAILABLE",
  "TOOLS_FAILED",
  "DAEMON_UNAVAILABLE",
  "TIMEOUT",
  "PROCESS_ENDED",
]);

/** Why an agent run has no result. The message says what happened and what to do. */
export class AgentRunError extends Error {
  override readonly name = "AgentRunError";
  readonly code: AgentRunErrorCode;
  readonly retryable: boolean;

  constructor(code: AgentRunErrorCode, message: string, options?: { readonly cause?: unknown }) {
    super(message, options);
    this.code = code;
    this.retryable = RETRYABLE.has(code);
  }
}
