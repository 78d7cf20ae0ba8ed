/** For the AI SDK (`ai`): the tools, and a sandbox for its `experimental_sandbox` option. */
import { jsonSchema, tool, type ToolSet } from "ai";
import type { SandboxTool } from "../tool.ts";

export { aiSandbox } from "./ai-sandbox.ts";

/**
 * The tools by name. A `ToolError` becomes a `tool-error` part, which the model reads in its next
 * step.
 */
export function aiTools(tools: readonly SandboxTool[]): ToolSet {
  return Object.fromEntries(
    tools.map((one) => [
      one.name,
      tool({
        description: one.description,
        // Without a validator: the tool checks its input itself and explains how to correct it.
        inputSchema: jsonSchema(one.inputJsonSchema),
        execute: async (input, { abortSignal }) =>
          one.forModel(await one.run(input, { signal: abortSignal })),
      }),
    ]),
  );
}
