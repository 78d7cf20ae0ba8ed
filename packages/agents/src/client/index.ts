/** The client of the agent service. It has no dependencies, so that a CLI loads it quickly. */
export { AgentServiceClient } from "./agent-service-client.ts";
export type {
  AgentServiceClientOptions,
  CallOptions,
  DecisionOptions,
  ExecuteOptions,
  FollowOptions,
  ListRunsOptions,
} from "./agent-service-client.ts";
export { AgentServiceError } from "./agent-service-error.ts";
export type {
  AgentDetails,
  AgentSummary,
  EventPage,
  RunBody,
  RunEventBody,
  RunFailure,
  RunPage,
  RunStatus,
  UsageBody,
  WorkflowDetails,
  WorkflowRunBody,
  WorkflowRunPage,
  WorkflowRunStatus,
  WorkflowStepBody,
  WorkflowSummary,
} from "./wire-types.ts";
