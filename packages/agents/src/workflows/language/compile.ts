/**
 * Compiles the text of a workflow file into a plan, or reports everything that is wrong with it.
 */
import { checkFlow } from "./check-flow.ts";
import { checkReferences } from "./check-references.ts";
import type { CompileContext } from "./compile-context.ts";
import { compileSteps } from "./compile-steps.ts";
import { readKeys } from "./keys.ts";
import type { Fields } from "./keys.ts";
import { readYaml } from "./located-yaml.ts";
import type { Block, Plan } from "./plan.ts";
import { allSteps } from "./plan.ts";
import type { Problem } from "./problem.ts";
import { Problems } from "./problem.ts";
import { suggestedName } from "../../suggested-name.ts";
import { SANDBOX_KEYS, WORKFLOW_KEYS } from "./workflow-keys.ts";

export interface Compilation {
  /** Absent if there are problems. */
  readonly plan: Plan | undefined;
  readonly problems: readonly Problem[];
}

const DEFAULT_MAX_STEPS = 10_000;

/** `fallbackId` names a workflow whose file has no id. */
export function compileWorkflow(text: string, fallbackId: string): Compilation {
  const { root, problems } = readYaml(text);
  if (root === undefined) return { plan: undefined, problems: problems.found };
  if (root.kind !== "map") {
    problems.add(root.place, "a workflow must be a mapping with id and steps");
    return { plan: undefined, problems: problems.found };
  }
  const fields = readKeys(root, WORKFLOW_KEYS, "workflow", problems);
  const id = idOf(fields, fallbackId, problems);
  const retainMs = retainMsOf(fields, problems);
  const context: CompileContext = {
    compileBlock: compileSteps,
    problems,
    ids: new Map(),
    expressions: [],
  };
  const block = compileSteps(fields.located.steps, fields, context, { path: [], variables: [] });
  if (block !== undefined && problems.found.length === 0) checkFlow(block, problems);
  checkReferences(context.expressions, context.ids, problems);
  if (block === undefined || problems.found.length > 0)
    return { plan: undefined, problems: inOrder(problems) };
  return { plan: { id, retainMs, ...describe(fields), root: block }, problems: [] };
}

function describe({ values, located }: Fields<typeof WORKFLOW_KEYS>) {
  const schema = values.input_schema;
  return {
    name: values.name,
    description: values.description,
    version: values.version === undefined ? undefined : String(values.version),
    inputSchema: schema &&
      located.input_schema && { value: schema, place: located.input_schema.place },
    maxSteps: values.max_steps ?? DEFAULT_MAX_STEPS,
  };
}

function idOf(
  { values, names, place }: Fields<typeof WORKFLOW_KEYS>,
  fallback: string,
  problems: Problems,
): string {
  if (values.id !== undefined || names.id !== undefined) return values.id ?? "";
  if (!WORKFLOW_KEYS.id.safeParse(fallback).success)
    problems.add(place, "workflow: id is missing, and the file's name cannot be used as one");
  return fallback;
}

function retainMsOf({ located }: Fields<typeof WORKFLOW_KEYS>, problems: Problems): number {
  if (located.sandbox?.kind !== "map") return 0;
  return readKeys(located.sandbox, SANDBOX_KEYS, "sandbox", problems).values.retain_seconds ?? 0;
}

/** Problems with the agents that a plan names, which change independently of the plan. */
export function checkAgents(
  plan: Plan,
  has: (agent: string) => boolean,
  known: readonly string[] = [],
): readonly Problem[] {
  const problems = new Problems();
  for (const step of allSteps(plan.root)) {
    if (step.type !== "agent" || has(step.agent)) continue;
    const nearest = suggestedName(step.agent, known);
    problems.add(
      step.place,
      `step ${step.id}: there is no agent ${JSON.stringify(step.agent)} that can be run${nearest === undefined ? "" : `; did you mean ${nearest}?`}`,
    );
  }
  return inOrder(problems);
}

function inOrder({ found }: Problems): readonly Problem[] {
  return found.toSorted((a, b) => a.line - b.line || a.column - b.column);
}

/** How many steps a plan has, including nested ones. */
export function countSteps({ root }: { readonly root: Block }): number {
  return allSteps(root).length;
}
