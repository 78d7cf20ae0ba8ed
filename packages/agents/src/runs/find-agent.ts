/** Finds an agent by its name, or explains why it cannot be run. */
import type { AgentCatalogue } from "../prompts/agent-catalogue.ts";
import type { AgentDefinition } from "../prompts/agent-definition.ts";
import { suggestedName } from "../suggested-name.ts";
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
    throw new AgentRunError(
      "AGENT_NOT_FOUND",
      `There is no agent ${JSON.stringify(name)}.${hintFor(name, names)}`,
    );
  }
  if ("definition" in entry) return entry.definition;
  throw new AgentRunError("AGENT_INVALID", entry.error);
}

function hintFor(name: string, names: readonly string[]): string {
  if (names.length === 0) return " There are no agents; add agents/NAME.prompt.";
  const suggestion = suggestedName(name, names);
  return suggestion === undefined ? "" : ` Did you mean "${suggestion}"?`;
}
