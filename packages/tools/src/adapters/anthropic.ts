/**
 * For Anthropic's SDK (`@anthropic-ai/sdk`): the tools, in the form that its tool runner expects.
 */
import type { BetaRunnableTool } from "@anthropic-ai/sdk/lib/tools/BetaRunnableTool";
import type { SandboxTool } from "../tool.ts";

/** For `client.beta.messages.toolRunner`. A `ToolError` becomes a `tool_result` with `is_error`. */
export function anthropicTools(tools: readonly SandboxTool[]): BetaRunnableTool[] {
  return tools.map((one) => ({
    type: "custom",
    name: one.name,
    description: one.description,
    input_schema: one.inputJsonSchema,
    // The tool checks its input itself and explains how to correct it.
    parse: (content) => content,
    run: async (input, context) =>
      JSON.stringify(one.forModel(await one.run(input, { signal: context?.signal ?? undefined }))),
  }));
}
