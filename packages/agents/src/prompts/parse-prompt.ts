/**
 * Parses the text of a `.prompt` file into an agent's definition, or reports what is wrong and
 * where.
 */
import { basename } from "node:path";
import { nearestName, parseSandboxSettings, SettingsError } from "@sandkasten/tools";
import type { SandboxSettings } from "@sandkasten/tools";
import { z } from "zod";
import type { AgentDefinition } from "./agent-definition.ts";
import {
  DEFAULT_MAX_STEPS,
  DEFAULT_TIMEOUT_SECONDS,
  frontmatterSchema,
} from "./frontmatter-schema.ts";
import type { FrontmatterValue } from "./frontmatter-schema.ts";
import { readFrontmatter } from "./frontmatter-yaml.ts";
import type { Frontmatter } from "./frontmatter-yaml.ts";
import { PromptError } from "./prompt-error.ts";
import { checkTemplate } from "./render-prompt.ts";
import { ValueCheck } from "./value-check.ts";

export const PROMPT_SUFFIX = ".prompt";

/** `file` is the name used in messages. Throws PromptError. */
export async function parsePrompt(file: string, source: string): Promise<AgentDefinition> {
  const frontmatter = readFrontmatter(file, source);
  const given = checkKeys(file, frontmatter);
  const output = await compileSchema(file, frontmatter, ["output", "schema"], given.output?.schema);
  const definition: AgentDefinition = {
    name: basename(file, PROMPT_SUFFIX),
    title: given.metadata?.name,
    description: given.metadata?.description,
    file,
    model: given.model,
    config: given.config ?? {},
    input: await compileSchema(file, frontmatter, ["input", "schema"], given.input?.schema),
    inputDefault: given.input?.default ?? {},
    output,
    outputFormat: given.output?.format ?? (output === undefined ? "text" : "json"),
    sandbox: settingsOf(file, frontmatter, given.sandbox),
    tools: given.tools,
    agents: given.agents ?? [],
    mcp: given.mcp ?? {},
    maxSteps: given.max_steps ?? DEFAULT_MAX_STEPS,
    timeoutSeconds: given.timeout_seconds ?? DEFAULT_TIMEOUT_SECONDS,
    template: frontmatter.template,
  };
  if (output !== undefined && definition.outputFormat === "text")
    throw new PromptError(
      file,
      frontmatter.placeOf(["output", "format"]),
      "`output.format: text` and `output.schema` contradict each other; remove one",
    );
  await checkBody(file, frontmatter, definition);
  return definition;
}

function checkKeys(file: string, { value, placeOf }: Frontmatter): FrontmatterValue {
  const result = frontmatterSchema.safeParse(value);
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  if (issue === undefined) throw result.error;
  if (issue.code === "unrecognized_keys") {
    const [name = ""] = issue.keys;
    const path = [...issue.path, name];
    throw new PromptError(
      file,
      placeOf(path, "name"),
      `\`${path.join(".")}\` is not known${didYouMean(name, keysAt(issue.path))}`,
    );
  }
  throw new PromptError(
    file,
    placeOf(issue.path, issue.code === "invalid_key" ? "name" : "value"),
    `\`${issue.path.join(".")}\`: ${describeIssue(issue)}`,
  );
}

function didYouMean(name: string, known: readonly string[]): string {
  const nearest = nearestName(name, known);
  return nearest === undefined ? "" : `; did you mean \`${nearest.name}\`?`;
}

/** The keys that the schema knows at a path. */
function keysAt(path: readonly PropertyKey[]): readonly string[] {
  let schema: unknown = frontmatterSchema;
  for (const name of path)
    schema = schema instanceof z.ZodObject ? unwrap(schema.shape[String(name)]) : undefined;
  return schema instanceof z.ZodObject ? Object.keys(schema.shape) : [];
}

function unwrap(schema: unknown): unknown {
  return schema instanceof z.ZodOptional ? schema.unwrap() : schema;
}

function describeIssue(issue: z.core.$ZodIssue): string {
  if (issue.code === "invalid_key") return issue.issues[0]?.message ?? issue.message;
  if (issue.code !== "invalid_union") return issue.message;
  // The closest form is the one with the fewest errors.
  const forms = issue.errors.toSorted((one, other) => one.length - other.length);
  const [inner] = forms[0] ?? [];
  if (inner === undefined) return issue.message;
  const where = inner.path.length === 0 ? "" : `${inner.path.join(".")}: `;
  return `${where}${describeIssue(inner)}`;
}

async function compileSchema(
  file: string,
  { placeOf }: Frontmatter,
  path: readonly string[],
  schema: unknown,
): Promise<ValueCheck | undefined> {
  if (schema === undefined) return undefined;
  try {
    return await ValueCheck.compile(schema);
  } catch (error) {
    throw new PromptError(
      file,
      placeOf(path),
      `\`${path.join(".")}\` is neither JSON Schema nor Picoschema: ${(error as Error).message}`,
      { cause: error },
    );
  }
}

function settingsOf(
  file: string,
  { placeOf }: Frontmatter,
  sandbox: unknown,
): SandboxSettings | undefined {
  if (sandbox === undefined) return undefined;
  try {
    return parseSandboxSettings(sandbox);
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error;
    const path = ["sandbox", ...error.path];
    throw new PromptError(file, placeOf(path, "name"), `sandbox: ${error.message}`, {
      cause: error,
    });
  }
}

async function checkBody(
  file: string,
  { placeOf }: Frontmatter,
  definition: AgentDefinition,
): Promise<void> {
  if (definition.template === "")
    throw new PromptError(file, placeOf([]), "there is no prompt below the frontmatter");
  try {
    await checkTemplate(definition);
  } catch (error) {
    throw new PromptError(
      file,
      placeOf([]),
      `the template below the frontmatter is not valid: ${(error as Error).message.replaceAll(/\s*\n\s*/g, " ")}`,
      { cause: error },
    );
  }
}
