/** What a tool is, independent of any framework, and how to define one. */
import { z } from "zod";
import { describeIssues } from "./issues.ts";
import { ToolError, toToolError } from "./tool-error.ts";

/**
 * A JSON schema of an object. Not an interface, because some frameworks expect a type that allows
 * more keys.
 */
export type JsonSchema = {
  readonly type: "object";
  readonly properties: Record<string, Record<string, unknown>>;
  readonly required: string[];
  readonly additionalProperties: boolean;
};

/** What a call gets besides its input. */
export interface ToolCall {
  /** Cancels the command, not only the wait for it. */
  readonly signal?: AbortSignal | undefined;
  /** Receives the output of commands while they run. */
  readonly onOutput?: ((piece: OutputPiece) => void) | undefined;
}

/** A chunk of a command's output. */
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
  /** The schema of `input` that a model sees. */
  readonly inputJsonSchema: JsonSchema;
  readonly outputJsonSchema: JsonSchema;
  /** Checks the input and runs the tool. Throws `ToolError`. */
  run(input: unknown, call?: ToolCall): Promise<Output>;
  /** The output without fields that repeat others: the same information in fewer tokens. */
  forModel(output: Output): unknown;
}

/** The parts of a tool. */
export interface ToolDefinition<Input, Output extends object> {
  readonly name: string;
  readonly description: string;
  readonly input: z.ZodType<Input>;
  readonly output: z.ZodType<Output>;
  /** Fields of the output that repeat others. */
  readonly repeated?: readonly (keyof Output & string)[];
  /** For outputs where omitting fields is not enough. */
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

/** Models in strict modes send null for omitted values. */
function withoutNulls(given: unknown): unknown {
  if (typeof given !== "object" || given === null || Array.isArray(given)) return given;
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== null));
}

function without(result: object, names: readonly string[]): object {
  return Object.fromEntries(Object.entries(result).filter(([name]) => !names.includes(name)));
}

/** Omitted from a model's schema: bounds that hardly any call reaches cost tokens in every turn. */
const UNSHOWN =
  "minLength maxLength minItems maxItems propertyNames minimum maximum exclusiveMinimum".split(" ");

function jsonSchemaOf(schema: z.ZodType, io: "input" | "output"): JsonSchema {
  const { properties = {}, required = [] } = z.toJSONSchema(schema, {
    io,
    override: ({ jsonSchema }) => {
      for (const name of UNSHOWN) Reflect.deleteProperty(jsonSchema, name);
    },
  });
  return {
    type: "object",
    properties: withSingleTypes(properties) as JsonSchema["properties"],
    required: [...required],
    // Models may only send known fields; results may get more fields later.
    additionalProperties: io === "output",
  };
}

/** Clients that expect one type for each field cannot read a list of types. */
function withSingleTypes(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(withSingleTypes);
  if (typeof schema !== "object" || schema === null) return schema;
  const { type, ...rest } = Object.fromEntries(
    Object.entries(schema).map(([name, value]) => [name, withSingleTypes(value)]),
  );
  if (type === undefined) return rest;
  return Array.isArray(type)
    ? { anyOf: type.map((one: unknown) => ({ type: one })), ...rest }
    : { type, ...rest };
}
