/** Other agents as tools of an agent. */
import type { AgentDefinition } from "../prompts/agent-definition.ts";
import { AgentRunError } from "./agent-executor.ts";
import type { AgentRunErrorCode, AgentRunResult } from "./agent-executor.ts";
import { ToolFailure } from "./agent-tool.ts";
import type { AgentTool } from "./agent-tool.ts";
import { toolName } from "./tool-name.ts";

export interface SubAgentCall {
  readonly agentName: string;
  readonly task: string | undefined;
  readonly input: unknown;
  readonly signal: AbortSignal;
  readonly onStarted: (runId: string) => void;
}

/** A tool for each agent. Throws AgentRunError if one does not exist. */
export function subAgentTools(
  { name, agents }: AgentDefinition,
  find: (name: string) => AgentDefinition,
  run: (call: SubAgentCall) => Promise<AgentRunResult>,
): AgentTool[] {
  const definitions = agents.map((agent) => {
    try {
      return find(agent);
    } catch (error) {
      if (!(error instanceof AgentRunError)) throw error;
      throw new AgentRunError("AGENT_INVALID", `${name} calls other agents: ${error.message}`);
    }
  });
  const tools = definitions.map((definition) => subAgentTool(definition, run));
  if (new Set(tools.map((tool) => tool.name)).size < tools.length)
    throw new AgentRunError("AGENT_INVALID", `${name} names one agent twice in \`agents\`.`);
  return tools;
}

function subAgentTool(
  definition: AgentDefinition,
  run: (call: SubAgentCall) => Promise<AgentRunResult>,
): AgentTool {
  const { name, title = name, description = "", input: check } = definition;
  return {
    name: toolName("agent", name),
    description: `Asks the agent "${title}" and returns its answer. ${description}`.trim(),
    inputSchema: check === undefined ? TASK_ONLY : withTask(check.schema),
    pausesClock: true,
    run: async (given, { id, signal, emit }) => {
      const { task, input } = splitInput(given, check !== undefined);
      try {
        const { output } = await run({
          agentName: name,
          task,
          input,
          signal,
          onStarted: (runId) =>
            emit("agent_call", { call_id: id, run_id: runId, agent_name: name }),
        });
        return { output };
      } catch (error) {
        throw failureOf(error, title);
      }
    },
  };
}

const TASK = { type: "string", description: "What the agent is asked to do, in full sentences" };
const TASK_ONLY = { type: "object", properties: { task: TASK }, required: ["task"] };

function withTask(schema: Readonly<Record<string, unknown>>): object {
  const { properties } = schema as { readonly properties?: object };
  return { ...schema, type: "object", properties: { task: TASK, ...properties } };
}

function splitInput(
  given: unknown,
  hasSchema: boolean,
): { readonly task: string | undefined; readonly input: unknown } {
  if (typeof given !== "object" || given === null || Array.isArray(given))
    throw new ToolFailure("INVALID_INPUT", "The arguments must be one JSON object.");
  const { task, ...input } = given as Readonly<Record<string, unknown>>;
  if (task !== undefined && typeof task !== "string")
    throw new ToolFailure("INVALID_INPUT", "`task` must be a string.");
  if (hasSchema) return { task, input };
  if (task === undefined || task.trim() === "")
    throw new ToolFailure("INVALID_INPUT", "`task` is missing: say what the agent must do.");
  return { task, input: undefined };
}

/** Their messages are about the agent's work, not about this machine. */
const TELLABLE: ReadonlySet<AgentRunErrorCode> = new Set([
  "INVALID_INPUT",
  "INVALID_OUTPUT",
  "MAX_STEPS_EXCEEDED",
  "OUTPUT_LIMIT_EXCEEDED",
  "TIMEOUT",
]);

function failureOf(error: unknown, title: string): unknown {
  if (!(error instanceof AgentRunError)) return error;
  const reason = TELLABLE.has(error.code) ? error.message : "It could not finish its work.";
  return new ToolFailure(
    error.code === "INVALID_INPUT" ? "INVALID_INPUT" : "AGENT_FAILED",
    `The agent "${title}" failed (${error.code}). ${reason}`,
    { cause: error },
  );
}
