/** What a tool is, independent of any framework, and how one is made of its parts. */
import { z } from "zod";
import { describeIssues } from "./issues.ts";
import { ToolError, toToolError } from "./tool-error.ts";

/** A JSON schema of an object, as models and frameworks take it. */
export type JsonSchema = { readonly [key: string]: unknown; readonly type: "object" };

/** What comes with a call beside its input. */
export interface ToolCall {
  /** Cancels the command, not only the wait for it. */
  readonly signal?: AbortSignal | undefined;
  /** Gets the output of commands while they run. */
  readonly onOutput?: ((piece: OutputPiece) => void) | undefined;
}

/** A piece of a command's output. */
export interface OutputPiece {
  readonly stream: "stdout" | "stderr";
  readonly text: string;
}

/** A tool that a model can call. */
export interface SandboxTool<Output = unknown> {
  readonly name: string;
  /** Written for a model. */
  readonly description: string;
  /** Accepts every spelling of the input. */
  readonly input: z.ZodType;
  readonly output: z.ZodType<Output>;
  /** What a model is shown of `input`. */
  readonly inputJsonSchema: JsonSchema;
  readonly outputJsonSchema: JsonSchema;
  /** Checks the input, and does it. Throws `ToolError`. */
  run(input: unknown, call?: ToolCall): Promise<Output>;
  /** The output without fields that repeat others: the same information in fewer tokens. */
  forModel(output: Output): unknown;
}

/** What a tool is made of. */
export interface ToolDefinition<Input, Output extends object> {
  readonly name: string;
  readonly description: string;
  readonly input: z.ZodType<Input>;
  readonly output: z.ZodType<Output>;
  /** Fields of the output that repeat others. */
  readonly repeated?: readonly (keyof Output & string)[];
  /** Where leaving out fields is not enough. */
  readonly forModel?: (output: Output) => unknown;
  readonly run: (input: Input, call: ToolCall) => Promise<Output>;
  readonly onSandboxTime?: ((ms: number) => void) | undefined;
}

export function defineTool<Input, Output extends object>(
  definition: ToolDefinition<Input, Output>,
): SandboxTool<Output> {
  const { name, description, input, output, repeated = [], onSandboxTime } = definition;
  return {
    name,
    description,
    input,
    output,
    inputJsonSchema: jsonSchemaOf(input, "input"),
    outputJsonSchema: jsonSchemaOf(output, "output"),
    run: async (given, call = {}) => {
      const parsed = parseInput(name, input, given);
      const startedMs = performance.now();
      try {
        call.signal?.throwIfAborted();
        return await definition.run(parsed, call);
      } catch (error) {
        throw toToolError(error, call.signal);
      } finally {
        onSandboxTime?.(performance.now() - startedMs);
      }
    },
    forModel: definition.forModel ?? ((result) => without(result, repeated)),
  };
}

function parseInput<Input>(tool: string, schema: z.ZodType<Input>, given: unknown): Input {
  const result = schema.safeParse(withoutNulls(given ?? {}));
  if (result.success) return result.data;
  throw new ToolError("INVALID_INPUT", `${tool}: ${describeIssues(result.error, schema)}`);
}

/** Models in strict modes send null for what they leave out. */
function withoutNulls(given: unknown): unknown {
  if (typeof given !== "object" || given === null || Array.isArray(given)) return given;
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== null));
}

function without(result: object, names: readonly string[]): object {
  return Object.fromEntries(Object.entries(result).filter(([name]) => !names.includes(name)));
}

function jsonSchemaOf(schema: z.ZodType, io: "input" | "output"): JsonSchema {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { io });
  return { ...rest, type: "object" };
}
