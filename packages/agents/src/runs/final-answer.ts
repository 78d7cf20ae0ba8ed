/** Structured output: what the model is asked for, and whether its answer matches. */
import { isDeeperThan } from "../json-depth.ts";
import type { AgentDefinition } from "../prompts/agent-definition.ts";

const MAX_DEPTH = 200;

export interface FinalAnswer {
  readonly output: unknown;
  /** Why the text is not a valid answer. */
  readonly problem?: string;
}

/** What to tell the model about the form of its answer; undefined for free text. */
export function answerInstructions(definition: AgentDefinition): string | undefined {
  if (definition.outputFormat === "text") return undefined;
  if (definition.output === undefined)
    return "When you have finished, answer with one JSON value and nothing else.";
  return `When you have finished, answer with one JSON value and nothing else. It must match this JSON Schema:\n${JSON.stringify(definition.output.schema)}`;
}

export function checkAnswer(definition: AgentDefinition, text: string): FinalAnswer {
  if (definition.outputFormat === "text") return { output: text };
  const value = jsonIn(text);
  if (value === undefined) return { output: undefined, problem: "it is not one JSON value" };
  // SECURITY: a deeper value cannot be serialized, and a run whose end is not stored never ends.
  // Guarded by misbehaving-models.test.ts.
  if (isDeeperThan(value.json, MAX_DEPTH))
    return { output: undefined, problem: `it is nested more than ${MAX_DEPTH} levels deep` };
  const problem = definition.output?.problem(value.json);
  return problem === undefined ? { output: value.json } : { output: undefined, problem };
}

export function correctionRequest(problem: string): string {
  return `Your answer does not have the required form: ${problem}. Answer again with the corrected JSON value and nothing else.`;
}

/** Models wrap JSON in fences and in sentences. */
function jsonIn(text: string): { readonly json: unknown } | undefined {
  const fenced = /```(?:json)?\s*\n(?<inside>[\s\S]*?)\n\s*```/.exec(text)?.groups?.["inside"];
  const from = text.search(/[[{]/);
  const to = Math.max(text.lastIndexOf("}"), text.lastIndexOf("]"));
  const braced = from !== -1 && to > from ? text.slice(from, to + 1) : undefined;
  for (const candidate of [text, fenced, braced]) {
    if (candidate === undefined) continue;
    try {
      return { json: JSON.parse(candidate) as unknown };
    } catch {
      // The next candidate may be the intended one.
    }
  }
  return undefined;
}
