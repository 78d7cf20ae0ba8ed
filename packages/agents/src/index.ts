/** Prompt-file agents and workflows that work in sandboxes, and the service that runs them. */
export type { AgentServiceOptions } from "./config.ts";
export { startAgentService } from "./serve.ts";
export type { RunningAgentService, StartOptions } from "./serve.ts";
