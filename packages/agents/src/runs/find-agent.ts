/** Finds an agent by its name, or says why there is none to run. */
import { nearestName } from "@sandkasten/tools";
import type { AgentCatalogue } from "../prompts/agent-catalogue.ts";
import type { AgentDefinition } from "../prompts/agent-definition.ts";
import { AgentRunError } from "./agent-executor.ts";

/** Throws AgentRunError. */
export function findAgent(catalogue: AgentCatalogue, name: string): AgentDefinition {
  const entry = catalogue.find(name);
  if (entry === undefined) {
    const names = catalogue
      .entries()
      .flatMap((known) => [
        known.name,
        ...("definition" in known && known.definition.title !== undefined
          ? [known.definition.title]
          : []),
      ]);
    const nearest = nearestName(name, names);
    const hint =
      nearest === undefined
        ? " There are no agents; add agents/NAME.prompt."
        : nearest.distance <= 3
          ? ` Did you mean "${nearest.name}"?`
          : "";
    throw new AgentRunError("AGENT_NOT_FOUND", `There is no agent ${JSON.stringify(name)}.${hint}`);
  }
  if ("definition" in entry) return entry.definition;
  throw new AgentRunError("AGENT_INVALID", entry.error);
}
