/** What the tools of an agent work with. */
import type { SandboxClient } from "@sandkasten/sdk";
import type { FileStore } from "./file-store.ts";
import type { SandboxPolicy } from "./policy.ts";
import type { SandboxScope } from "./scope/sandbox-scope.ts";

/** A finished call, for metrics. */
export interface EndedCall {
  readonly tool: string;
  /** Neither the call nor its command failed. */
  readonly ok: boolean;
  readonly durationMs: number;
}

/** A structured logger; pino is compatible. */
export interface ToolLog {
  info(fields: Readonly<Record<string, unknown>>, message: string): void;
}

/** What tools work with. */
export interface SandboxToolContext {
  readonly client: SandboxClient;
  /** The agent run's own scope, in the namespace `agent`. */
  readonly agentScope: SandboxScope;
  /** The workflow run's scope, if the agent runs as one of its steps. */
  readonly workflowScope?: SandboxScope | undefined;
  /** The administrator's policy; the defaults if absent. */
  readonly policy?: SandboxPolicy | undefined;
  readonly fileStore?: FileStore | undefined;
  /** Called after each call. */
  readonly onCall?: ((call: EndedCall) => void) | undefined;
  /** Receives the lines `sandbox_run_started` and `sandbox_run_finished`. */
  readonly log?: ToolLog | undefined;
  /** Receives the time spent in calls, so that a run's timeout can be extended. */
  readonly onSandboxTime?: ((ms: number) => void) | undefined;
}
