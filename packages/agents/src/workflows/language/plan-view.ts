/** A plan as the HTTP API shows it. */
import type { Expression } from "../expressions/expression.ts";
import type { Template } from "../expressions/template.ts";
import type { Block, Plan, Step } from "./plan.ts";

/** A plan in JSON, in the spelling that the guides use. */
export function planView(plan: Plan): Record<string, unknown> & { steps: readonly unknown[] } {
  return {
    id: plan.id,
    name: plan.name,
    description: plan.description,
    version: plan.version,
    input_schema: plan.inputSchema?.value,
    max_steps: plan.maxSteps,
    sandbox: { retain_seconds: plan.retainMs / 1000 },
    ...blockView(plan.root),
  };
}

function blockView({ start, steps }: Block): { start: string; steps: readonly unknown[] } {
  return { start, steps: steps.map(stepView) };
}

function stepView(step: Step): Record<string, unknown> {
  const { id, type, name, description, place, maxVisits } = step;
  const common = { id, type, name, description, line: place.line, max_visits: maxVisits };
  const flow = "next" in step ? { next: step.next ?? null } : {};
  const timeout =
    "timeoutMs" in step && step.timeoutMs !== undefined
      ? { timeout_seconds: step.timeoutMs / 1000 }
      : {};
  return { ...common, ...details(step), ...timeout, ...flow };
}

function details(step: Step): Record<string, unknown> {
  switch (step.type) {
    case "agent":
      return {
        agent: step.agent,
        task: step.task && written(step.task),
        input: step.input && written(step.input),
        safe: step.safe,
        retry: {
          max_attempts: step.retry.maxAttempts,
          backoff_seconds: step.retry.backoffMs / 1000,
          max_backoff_seconds: step.retry.maxBackoffMs / 1000,
          jitter: step.retry.jitter,
        },
      };
    case "switch":
      return {
        expression: step.expression?.source,
        transitions: step.transitions.map(({ condition, next }) =>
          condition.kind === "equals"
            ? { condition: condition.value, next }
            : { if: condition.expression.source, next },
        ),
        default: step.otherwise,
      };
    case "parallel":
      return {
        max_concurrency: step.maxConcurrency,
        branches: step.branches.map(({ name, block }) => ({ name, ...blockView(block) })),
      };
    case "foreach":
      return {
        items: step.items.source,
        item: step.itemName,
        max_concurrency: step.maxConcurrency,
        max_items: step.maxItems,
        ...blockView(step.block),
      };
    case "transform":
      return { values: written(step.output) };
    case "approval":
      return { message: written(step.message), on_reject: step.onReject };
    case "try":
      return { try: blockView(step.attempt), catch: blockView(step.rescue) };
    case "timer":
      return "ms" in step.wait
        ? { seconds: step.wait.ms / 1000 }
        : { until: step.wait.until.source };
    case "end":
      return {
        status: step.failure === undefined ? "succeeded" : "failed",
        output: step.output && written(step.output),
        message: step.failure && written(step.failure),
      };
  }
}

/** A template as it would be written in a file. */
function written(template: Template): unknown {
  const braces = ({ source }: Expression): string => `{{ ${source} }}`;
  switch (template.kind) {
    case "constant":
      return template.value;
    case "value":
      return braces(template.expression);
    case "text":
      return template.parts
        .map((part) => (typeof part === "string" ? part : braces(part)))
        .join("");
    case "list":
      return template.items.map(written);
    case "map":
      return Object.fromEntries(template.entries.map(([name, value]) => [name, written(value)]));
  }
}
