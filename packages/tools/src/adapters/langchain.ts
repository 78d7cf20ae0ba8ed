/** For LangChain and LangGraph (`@langchain/core`): the tools. */
import { type StructuredToolInterface, tool } from "@langchain/core/tools";
import { z } from "zod";
import type { JsonSchema, SandboxTool } from "../tool.ts";

/** For `createAgent` and `ToolNode`. A `ToolError` becomes a `ToolMessage` with the status `error`. */
export function langchainTools(tools: readonly SandboxTool[]): StructuredToolInterface[] {
  return tools.map((one) =>
    tool(
      async (input, { signal }: { readonly signal?: AbortSignal }) =>
        JSON.stringify(one.forModel(await one.run(input, { signal }))),
      {
        name: one.name,
        description: one.description,
        schema: shownOnly(one.inputJsonSchema),
      },
    ),
  );
}

/**
 * Accepts everything, and is shown as the JSON schema. For invalid input, LangChain would return
 * all of that input to the model, but not the tool's own explanation.
 */
function shownOnly(schema: JsonSchema) {
  const anything = z.record(z.string(), z.unknown());
  anything._zod.toJSONSchema = () => ({ ...schema });
  return anything;
}
