/** Prompt-file agents and workflows that work in sandboxes, and the service that runs them. */
export { AgentRunError } from "./runs/agent-executor.ts";
export type {
  AgentExecutor,
  AgentRunErrorCode,
  AgentRunRequest,
  AgentRunResult,
} from "./runs/agent-executor.ts";
export type { RouteModule } from "./service/service.ts";
