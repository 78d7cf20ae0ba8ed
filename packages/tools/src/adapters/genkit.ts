/**
 * For Genkit: the tools as middleware, because only middleware can report a failed call to a model.
 */
import { randomUUID } from "node:crypto";
import {
  generateMiddleware,
  type GenerateMiddlewareDef,
  type MiddlewareRef,
  type Part,
  tool,
  type ToolAction,
  type ToolRequestPart,
} from "genkit";
import type { SandboxTool } from "../tool.ts";
import { ToolError } from "../tool-error.ts";

/** Replaces tools that do not exist. Models do not see it. */
const UNKNOWN = "sandbox_unknown_tool";

/**
 * Middleware for the `use` option of `ai.generate`; it also adds the tools.
 *
 * Genkit ends the run if a tool throws, if its input is invalid, or if it does not exist. With this
 * middleware the model gets an output `{ error }` instead, which says what to do.
 */
export function genkitTools(tools: readonly SandboxTool[]): MiddlewareRef {
  // Genkit requests one for each call of `generate`.
  return generateMiddleware({ name: `sandkasten-${randomUUID()}` }, () => middlewareOf(tools))();
}

function middlewareOf(tools: readonly SandboxTool[]): GenerateMiddlewareDef {
  const byName = new Map(tools.map((one) => [one.name, one]));
  let signal: AbortSignal | undefined;
  return {
    tools: [...tools.map(definitionOf), unknownTool()],
    generate: async (request, context, next) => {
      // Genkit does not tell tools that their run was aborted.
      signal = context.abortSignal;
      return await next(request, context);
    },
    model: async (request, context, next) => {
      const shown = request.tools?.filter(({ name }) => name !== UNKNOWN) ?? [];
      const response = await next({ ...request, tools: shown }, context);
      const names = shown.map(({ name }) => name);
      // Some plugins still return a list of candidates, of which Genkit takes the first.
      const { candidates: [candidate] = [], ...rest } = response;
      const chosen = { ...candidate, ...rest };
      if (chosen.message === undefined) return response;
      const content = chosen.message.content.map((part) => toKnownTool(part, names));
      return { ...chosen, message: { ...chosen.message, content } };
    },
    tool: async (request, context, next) => {
      const one = byName.get(request.toolRequest.name);
      if (one === undefined) return await next(request, context);
      return responseTo(request, await outputOf(one, request, signal));
    },
  };
}

/** Replaces a call of a tool that does not exist by one that reports this. */
function toKnownTool(part: Part, known: readonly string[]): Part {
  if (part.toolRequest === undefined || known.includes(part.toolRequest.name)) return part;
  const input = { tool: part.toolRequest.name, known };
  return { ...part, toolRequest: { ...part.toolRequest, name: UNKNOWN, input } };
}

/** The tool as a model sees it. The middleware runs it before Genkit checks the input. */
function definitionOf({ name, description, inputJsonSchema }: SandboxTool): ToolAction {
  // As a JSON schema, because Genkit uses zod 3, which turns a zod 4 schema into an empty one.
  return tool({ name, description, inputJsonSchema: { ...inputJsonSchema } }, () =>
    Promise.reject(new Error(`${name} was called outside its middleware`)),
  );
}

function unknownTool(): ToolAction {
  return tool({ name: UNKNOWN, description: "Not for use" }, async (input: unknown) => {
    const { tool: name, known } = input as { readonly tool: string; readonly known: string[] };
    return { error: `There is no tool ${name}. Use one of ${known.join(", ")}.` };
  });
}

async function outputOf(
  one: SandboxTool,
  { toolRequest }: ToolRequestPart,
  signal: AbortSignal | undefined,
): Promise<unknown> {
  try {
    return one.forModel(await one.run(toolRequest.input, { signal }));
  } catch (error) {
    if (!(error instanceof ToolError) || error.code === "CANCELLED") throw error;
    return { error: error.message };
  }
}

function responseTo({ toolRequest: { name, ref } }: ToolRequestPart, output: unknown) {
  return { toolResponse: { name, output, ...(ref !== undefined && { ref }) } };
}
