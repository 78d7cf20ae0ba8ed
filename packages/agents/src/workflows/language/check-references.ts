/** Checks that expressions read variables and steps that can have a value at that point. */
import type { Reference } from "../expressions/expression.ts";
import type { CompileContext, Container, UsedExpression } from "./compile-context.ts";
import { didYouMean } from "../../suggested-name.ts";
import type { Problems } from "./problem.ts";

const USUAL_VARIABLES = ["input", "steps", "run"];

type Steps = CompileContext["ids"];

export function checkReferences(
  used: readonly UsedExpression[],
  steps: Steps,
  problems: Problems,
): void {
  for (const one of used) {
    const known = [...USUAL_VARIABLES, ...one.variables];
    for (const { name, offset } of one.expression.variables)
      if (!known.includes(name))
        problems.add(
          one.placeOf(offset),
          `step ${one.stepId}: ${name} is not known${variableHint(name, known, steps)}`,
        );
    for (const reference of one.expression.steps ?? []) {
      const fault = stepFault(reference, one, steps);
      if (fault !== undefined)
        problems.add(one.placeOf(reference.offset), `step ${one.stepId}: ${fault}`);
    }
  }
}

function variableHint(name: string, known: readonly string[], steps: Steps): string {
  // `steps.check-results` subtracts `results` from `steps.check`.
  const dashed = [...steps.keys()].find((id) => id.split("-").slice(1).includes(name));
  if (dashed !== undefined) return `; a step with a dash is written steps["${dashed}"]`;
  if (steps.has(name)) return `; the output of a step is steps.${name}.output`;
  return didYouMean(name, known);
}

function stepFault(
  { name }: Reference,
  { path }: UsedExpression,
  steps: Steps,
): string | undefined {
  const step = steps.get(name);
  if (step === undefined) {
    const dashed = [...steps.keys()].find((id) => id.startsWith(`${name}-`));
    if (dashed !== undefined)
      return `there is no step ${name}; a step with a dash is written steps["${dashed}"]`;
    return `there is no step ${name}${didYouMean(name, steps.keys())}`;
  }
  const inside = step.path.filter((container) => !path.some((one) => isSame(one, container)));
  for (const { kind, owner } of inside) {
    if (kind === "foreach")
      return `step ${name} runs once for each item of ${owner}; all results are in steps.${owner}.output`;
    if (kind === "branch" && path.some((one) => one.kind === "branch" && one.owner === owner))
      return `step ${name} runs in another branch of ${owner} at the same time`;
  }
  return undefined;
}

function isSame(a: Container, b: Container): boolean {
  return a.owner === b.owner && a.name === b.name;
}
