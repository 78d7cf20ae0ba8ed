/**
 * Prints `docs/reference/frontmatter.md`, generated from the schemas of the keys:
 *
 *     node packages/agents/src/prompts/generate-frontmatter-page.ts > docs/reference/frontmatter.md
 *
 * A test fails if the page differs from this output.
 */
import { sandboxSettingsSchema } from "@sandkasten/tools";
import { z } from "zod";
import { frontmatterSchema } from "./frontmatter-schema.ts";

const INTRODUCTION = `# Frontmatter

Generated from the schemas in \`packages/agents/src/prompts/frontmatter-schema.ts\` and \`packages/tools/src/settings/schema.ts\`; change them there.

An agent is a file \`agents/NAME.prompt\`: YAML between two \`---\` lines, followed by the template of the prompt. The guide [Agents as prompt files](../guides/prompt-agents.md) explains how to use them.

\`\`\`yaml
---
model: openai/gpt-4o
metadata:
  name: Python Developer
  description: Writes and debugs Python code
sandbox:
  mode: code
  runtime: python
  limits:
    memory_mb: 512
max_steps: 20
---
You are a Python developer. Write the program that the user asks for, run it, and fix it until it works.

{{role "user"}}
{{userInput}}
\`\`\`

Unknown keys are rejected, and the error suggests the nearest known key. Errors have file, line and column.

## Keys
`;

const SANDBOX = `## \`sandbox\`

A string selects the runtime: \`sandbox: python\` gives the agent \`sandbox_run\`. An object can have these keys. The administrator's policy limits what they can request.
`;

interface JsonSchema {
  readonly type?: string;
  readonly enum?: readonly unknown[];
  readonly minimum?: number;
  readonly maximum?: number;
  readonly maxLength?: number;
  readonly description?: string;
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly items?: JsonSchema;
  readonly anyOf?: readonly JsonSchema[];
  readonly additionalProperties?: JsonSchema | boolean;
}

/** The whole page. */
export function frontmatterPage(): string {
  return [
    INTRODUCTION,
    table(rows(jsonSchema(frontmatterSchema), [])),
    SANDBOX,
    table(rows(objectForm(jsonSchema(sandboxSettingsSchema)), ["sandbox"])),
  ].join("\n");
}

function jsonSchema(schema: z.ZodType): JsonSchema {
  return z.toJSONSchema(schema, { io: "input", unrepresentable: "any" }) as JsonSchema;
}

function objectForm(schema: JsonSchema): JsonSchema {
  return schema.anyOf?.find(({ properties }) => properties !== undefined) ?? schema;
}

/** Each key, followed by those inside it. */
function rows(schema: JsonSchema, path: readonly string[]): (readonly string[])[] {
  return Object.entries(schema.properties ?? {}).flatMap(([name, value]) => {
    const here = [...path, name];
    return [
      [`\`${here.join(".")}\``, typeOf(value), value.description ?? ""],
      ...innerSchemas(value).flatMap((inner) => rows(inner, pathInside(here, value))),
    ];
  });
}

/** Objects inside unions and maps have keys as well. */
function innerSchemas(schema: JsonSchema): readonly JsonSchema[] {
  const { properties, additionalProperties: values } = schema;
  const inner = properties === undefined && typeof values === "object" ? values : schema;
  return inner.anyOf ?? [inner];
}

function pathInside(path: readonly string[], schema: JsonSchema): readonly string[] {
  const isMap = schema.properties === undefined && typeof schema.additionalProperties === "object";
  return isMap ? [...path, "NAME"] : path;
}

function typeOf(schema: JsonSchema): string {
  const { type, enum: values, minimum, maximum, items, anyOf } = schema;
  if (values !== undefined) return values.map((value) => `\`${String(value)}\``).join(", ");
  if (anyOf !== undefined) return [...new Set(anyOf.map(typeOf))].join(" or ");
  if (type === "array") return `list of ${typeOf(items ?? {})}`;
  if (type === "integer" || type === "number")
    return [type, range(minimum, maximum)].filter((text) => text !== "").join(", ");
  return type ?? "string or object";
}

function range(minimum: number | undefined, maximum: number | undefined): string {
  const hasMaximum = maximum !== undefined && maximum < Number.MAX_SAFE_INTEGER;
  if (minimum === undefined || minimum <= Number.MIN_SAFE_INTEGER) return "";
  return hasMaximum ? `${minimum} to ${maximum}` : `${minimum} or more`;
}

function table(body: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`;
  return `${[line(["key", "form", "meaning"]), "|---|---|---|", ...body.map(line)].join("\n")}\n`;
}

if (import.meta.main) process.stdout.write(frontmatterPage());
