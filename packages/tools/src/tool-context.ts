/** What the tools of an agent work on. */
import type { SandboxClient } from "@sandkasten/sdk";
import type { FileStore } from "./file-store.ts";
import type { SandboxPolicy } from "./policy.ts";
import type { SandboxScope } from "./scope/sandbox-scope.ts";

/** A call that is over, for metrics. */
export interface EndedCall {
  readonly tool: string;
  /** Neither the call nor its command failed. */
  readonly ok: boolean;
  readonly durationMs: number;
}

/** Structured log lines; pino fits it. */
export interface ToolLog {
  info(fields: Readonly<Record<string, unknown>>, message: string): void;
}

/** What tools work on. */
export interface SandboxToolContext {
  readonly client: SandboxClient;
  /** The agent run's own, of the namespace `agent`. */
  readonly agentScope: SandboxScope;
  /** That of the workflow run, when the agent runs as one of its steps. */
  readonly workflowScope?: SandboxScope | undefined;
  /** The administrator's; the defaults when absent. */
  readonly policy?: SandboxPolicy | undefined;
  readonly fileStore?: FileStore | undefined;
  /** Told of each call when it is over. */
  readonly onCall?: ((call: EndedCall) => void) | undefined;
  /** Gets the lines `sandbox_run_started` and `sandbox_run_finished`. */
  readonly log?: ToolLog | undefined;
  /** Told of the time spent in calls, so that a run's timeout can extend. */
  readonly onSandboxTime?: ((ms: number) => void) | undefined;
}
