/** For Genkit: the tools as a middleware, because only a middleware can tell a model of a failed call. */
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

/** Stands in for tools that do not exist. Models are not shown it. */
const UNKNOWN = "sandbox_unknown_tool";

/**
 * For the `use` of `ai.generate`, which gets the tools with it.
 *
 * Genkit ends the run when a tool throws, when its input does not fit, and when it does not exist.
 * With this middleware the model gets an output `{ error }` instead, which says what to do.
 */
export function genkitTools(tools: readonly SandboxTool[]): MiddlewareRef {
  // Genkit asks for one for each call of `generate`.
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
      // Some plugins still answer with a list of candidates, of which Genkit takes the first.
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

/** A call of a tool that does not exist becomes one that says so. */
function toKnownTool(part: Part, known: readonly string[]): Part {
  if (part.toolRequest === undefined || known.includes(part.toolRequest.name)) return part;
  const input = { tool: part.toolRequest.name, known };
  return { ...part, toolRequest: { ...part.toolRequest, name: UNKNOWN, input } };
}

/** What a model is shown. It runs in the middleware, before Genkit checks the input. */
function definitionOf({ name, description, inputJsonSchema }: SandboxTool): ToolAction {
  // As a JSON schema, because Genkit is on zod 3 and makes an empty schema of one of zod 4.
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
