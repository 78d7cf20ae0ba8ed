/** For the OpenAI Agents SDK (`@openai/agents-core`): the tools, and a sandbox client. */
import { type Tool, tool } from "@openai/agents-core";
import type { SandboxTool } from "../tool.ts";

export { OpenAiSandboxClient, type OpenAiSandboxOptions } from "./openai-sandbox-client.ts";
export type { SandkastenSnapshotSpec } from "./openai-snapshots.ts";
export type { OpenAiSandboxSession, OpenAiSandboxState } from "./openai-sandbox-session.ts";

/** For the `tools` of an `Agent`. A `ToolError` becomes the output of the call. */
export function openaiTools(tools: readonly SandboxTool[]): Tool[] {
  return tools.map((one) =>
    tool({
      name: one.name,
      description: one.description,
      // Not strict: the tool checks its input itself and explains how to correct it.
      strict: false,
      parameters: { ...one.inputJsonSchema, additionalProperties: true },
      errorFunction: (_context, error) => String(error),
      execute: async (input, _context, details) =>
        one.forModel(await one.run(input, { signal: details?.signal })),
    }),
  );
}
