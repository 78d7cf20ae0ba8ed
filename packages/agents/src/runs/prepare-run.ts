/** Checks a request before anything runs: the agent, its model and its input. */
import { randomUUID } from "node:crypto";
import type { ModelRegistry } from "../models/model-registry.ts";
import type { AgentCatalogue } from "../prompts/agent-catalogue.ts";
import type { AgentDefinition } from "../prompts/agent-definition.ts";
import { AgentRunError } from "./agent-executor.ts";
import type { AgentRunRequest } from "./agent-executor.ts";
import { findAgent } from "./find-agent.ts";

/** How deep agents may call agents: a cycle has to end somewhere. */
const MAX_DEPTH = 5;

/** The run that called an agent as a tool. */
export interface ParentRun {
  readonly runId: string;
  /** How many runs are above the called one. */
  readonly depth: number;
}

export interface PreparedRun {
  readonly runId: string;
  readonly definition: AgentDefinition;
  readonly modelName: string;
  readonly request: AgentRunRequest;
  readonly parent: ParentRun | undefined;
  /** The input, completed with default values. */
  readonly values: Readonly<Record<string, unknown>>;
  /** Ends the run; the reason is an AgentRunError. */
  readonly stop: AbortController;
}

export interface PreparationOptions {
  readonly catalogue: AgentCatalogue;
  readonly models: ModelRegistry;
  readonly defaultModel?: string | undefined;
}

/** Throws AgentRunError if the run cannot start. */
export function prepareRun(
  request: AgentRunRequest,
  parent: ParentRun | undefined,
  { catalogue, models, defaultModel }: PreparationOptions,
): PreparedRun {
  if (parent !== undefined && parent.depth > MAX_DEPTH)
    throw new AgentRunError(
      "MAX_STEPS_EXCEEDED",
      `Agents call agents more than ${MAX_DEPTH} levels deep. Look for a circle in their \`agents\`.`,
    );
  const definition = findAgent(catalogue, request.agentName);
  const modelName = definition.model ?? defaultModel;
  if (modelName === undefined)
    throw new AgentRunError(
      "MODEL_NOT_CONFIGURED",
      `The agent ${definition.name} names no model: add \`model:\` to ${definition.file}, or set SANDKASTEN_AGENTS_MODEL.`,
    );
  models.check(modelName);
  return {
    runId: request.runId ?? `run_${randomUUID().replaceAll("-", "")}`,
    definition,
    modelName,
    request,
    parent,
    values: inputValues(definition, request.input),
    stop: new AbortController(),
  };
}

function inputValues(
  definition: AgentDefinition,
  input: unknown,
): Readonly<Record<string, unknown>> {
  if (input !== undefined && (typeof input !== "object" || input === null || Array.isArray(input)))
    throw new AgentRunError("INVALID_INPUT", "The input must be a JSON object.");
  const values = structuredClone({ ...definition.inputDefault, ...input });
  const problem = definition.input?.problem(values);
  if (problem !== undefined)
    throw new AgentRunError(
      "INVALID_INPUT",
      `The input of ${definition.name} does not match its schema: ${problem}.`,
    );
  return values;
}
