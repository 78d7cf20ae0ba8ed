/** Compiles the conditions of a switch. */
import type { Expression } from "../expressions/expression.ts";
import { parseExpression } from "../expressions/expression.ts";
import type { ExpressionCompiler } from "./compile-context.ts";
import { readKeys } from "./keys.ts";
import type { Located, LocatedMap } from "./located-yaml.ts";
import type { Condition, Transition } from "./plan.ts";
import type { Problems } from "./problem.ts";
import { TRANSITION_KEYS } from "./step-keys.ts";

interface SwitchContext {
  readonly where: string;
  /** The switch has an expression, and conditions are compared with its value. */
  readonly isCompared: boolean;
  readonly conditions: ExpressionCompiler;
}

export function compileTransitions(
  located: Located | undefined,
  context: SwitchContext,
  problems: Problems,
): Transition[] {
  const transitions: Transition[] = [];
  for (const item of located?.kind === "list" ? located.items : []) {
    if (item.kind === "map") {
      const transition = compileTransition(item, context, problems);
      if (transition !== undefined) transitions.push(transition);
    } else {
      problems.add(
        item.place,
        `${context.where}: a transition must be a mapping with a condition and next`,
      );
    }
  }
  return transitions;
}

function compileTransition(
  item: LocatedMap,
  { where, isCompared, conditions }: SwitchContext,
  problems: Problems,
): Transition | undefined {
  const { values, located } = readKeys(item, TRANSITION_KEYS, `${where}: transition`, problems);
  if ((located.condition === undefined) === (located.if === undefined)) {
    problems.add(item.place, `${where}: a transition must have either condition or if`);
    return undefined;
  }
  if (located.condition !== undefined && isCompared) {
    const { condition } = values;
    if (condition === undefined) return undefined;
    if (typeof condition === "string" && readsVariables(condition)) {
      problems.add(
        located.condition.place,
        `${where}: condition is compared with the value of expression and is not evaluated; write \`if\` for an expression`,
      );
      return undefined;
    }
    return values.next === undefined
      ? undefined
      : { condition: { kind: "equals", value: condition }, next: values.next };
  }
  const expression = conditionExpression(located.if ?? located.condition, conditions);
  if (expression === undefined) {
    if (located.condition !== undefined && typeof values.condition !== "string")
      problems.add(
        located.condition.place,
        `${where}: condition must be text with a CEL expression, as the step has no expression to compare with`,
      );
    return undefined;
  }
  const condition: Condition = { kind: "true", expression };
  return values.next === undefined ? undefined : { condition, next: values.next };
}

/** `condition: true` without quotes means the expression `true`. */
function conditionExpression(
  located: Located | undefined,
  conditions: ExpressionCompiler,
): Expression | undefined {
  if (located?.kind === "scalar" && typeof located.value === "boolean")
    return parseExpression(String(located.value));
  return conditions.expression(located);
}

/** Whether a text is an expression rather than a value. */
function readsVariables(text: string): boolean {
  try {
    const names = parseExpression(text).variables.map(({ name }) => name);
    return names.includes("steps") || names.includes("input") || names.includes("value");
  } catch {
    return false;
  }
}
