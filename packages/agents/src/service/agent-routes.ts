/** Lists the agents. */
import type { FastifyInstance } from "fastify";
import type { AgentDetails, AgentSummary } from "../client/wire-types.ts";
import type { AgentCatalogue, CatalogueEntry } from "../prompts/agent-catalogue.ts";
import type { AgentDefinition } from "../prompts/agent-definition.ts";
import type { RouteModule } from "./service.ts";
import { ServiceError } from "./service-error.ts";

export function agentRoutes(catalogue: AgentCatalogue, defaultModel?: string): RouteModule {
  return (app: FastifyInstance) => {
    app.get("/v1/agents", async () => {
      await catalogue.refresh();
      return { agents: catalogue.entries().map((entry) => summary(entry, defaultModel)) };
    });
    app.get<{ Params: { name: string } }>("/v1/agents/:name", async ({ params: { name } }) => {
      await catalogue.refresh();
      const entry = catalogue.find(name);
      if (entry === undefined)
        throw new ServiceError(
          "AGENT_NOT_FOUND",
          `There is no agent ${JSON.stringify(name)}. List them with \`sandkasten agent list\`.`,
        );
      return details(entry, defaultModel);
    });
  };
}

function summary(entry: CatalogueEntry, defaultModel: string | undefined): AgentSummary {
  const { name, file } = entry;
  if ("error" in entry) return { name, file, mode: "none", error: entry.error };
  const { title, description, model = defaultModel, sandbox } = entry.definition;
  return { name, title, description, file, model, mode: sandbox?.mode ?? "none" };
}

function details(
  entry: CatalogueEntry,
  defaultModel: string | undefined,
): AgentDetails | AgentSummary {
  if ("error" in entry) return summary(entry, defaultModel);
  return { ...summary(entry, defaultModel), ...detailsOf(entry.definition) };
}

function detailsOf(definition: AgentDefinition): Omit<AgentDetails, keyof AgentSummary> {
  return {
    input_schema: definition.input?.schema,
    output_schema: definition.output?.schema,
    sandbox: definition.sandbox && snakeCase(definition.sandbox),
    tools: definition.tools ?? [],
    agents: definition.agents,
    // SECURITY: names only. Commands and headers of servers may contain secrets.
    mcp: Object.keys(definition.mcp),
    config: definition.config,
    max_steps: definition.maxSteps,
    timeout_seconds: definition.timeoutSeconds,
    prompt: definition.template,
  };
}

/** The API spells these names differently. */
function snakeCase(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(snakeCase);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, item]) => [
      name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
      snakeCase(item),
    ]),
  );
}
