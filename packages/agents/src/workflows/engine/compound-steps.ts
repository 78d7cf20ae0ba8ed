/** Steps that contain steps: parallel, foreach and try. */
import type { ForeachStep, ParallelStep, TryStep } from "../language/plan.ts";
import { allOf } from "./all-of.ts";
import { withinTime } from "./deadline.ts";
import type { StepData } from "./run-records.ts";
import { StepFailure } from "./stops.ts";
import type { StepContext, StepExecution, StepResult } from "./step-context.ts";
import { evaluate } from "./step-context.ts";

type CompoundStep = ParallelStep | ForeachStep | TryStep;

/** Starts the step, or continues it where an earlier process stopped, with the same deadline. */
async function runWithDeadline<Result>(
  context: StepContext,
  step: CompoundStep,
  execution: StepExecution,
  data: StepData,
  work: (signal: AbortSignal) => Promise<Result>,
): Promise<Result> {
  const { clock } = context;
  const deadlineMs =
    execution.record?.data.deadlineMs ??
    (step.timeoutMs === undefined ? undefined : clock.nowMs() + step.timeoutMs);
  if (execution.record === undefined)
    context.begin(step, execution, {
      data: { ...data, ...(deadlineMs !== undefined && { deadlineMs }) },
    });
  const fromMs = (deadlineMs ?? 0) - (step.timeoutMs ?? 0);
  const what = `step ${step.id}`;
  return await withinTime({ clock, ms: step.timeoutMs, fromMs, what }, execution.signal, work);
}

/** The output has the output of each branch under its name. */
export async function runParallelStep(
  context: StepContext,
  step: ParallelStep,
  execution: StepExecution,
): Promise<StepResult> {
  return await runWithDeadline(context, step, execution, {}, async (signal) => {
    const ended = await allOf(
      step.branches,
      { maxConcurrency: step.maxConcurrency, signal, what: `another branch of ${step.id}` },
      async ({ name, block }, _index, inner) => {
        const frame = execution.frame.inner();
        const output = await context.runBlock(block, `${execution.path}/${name}/`, frame, inner);
        return { name, output, frame };
      },
    );
    execution.frame.take(...ended.map(({ frame }) => frame));
    const output = Object.fromEntries(ended.map(({ name, output: of }) => [name, of]));
    return { output, next: step.next };
  });
}

/** The output has the output of each item's last step, in the order of the items. */
export async function runForeachStep(
  context: StepContext,
  step: ForeachStep,
  execution: StepExecution,
): Promise<StepResult> {
  const items = execution.record?.data.items ?? (await itemsOf(context, step, execution));
  return await runWithDeadline(context, step, execution, { items }, async (signal) => {
    const output = await allOf(
      items,
      { maxConcurrency: step.maxConcurrency, signal, what: `another item of ${step.id}` },
      async (item, index, inner) => {
        const frame = execution.frame.inner({ [step.itemName]: item, index });
        return await context.runBlock(step.block, `${execution.path}/[${index}]/`, frame, inner);
      },
    );
    return { output, next: step.next };
  });
}

async function itemsOf(
  context: StepContext,
  { id, items, maxItems }: ForeachStep,
  { frame }: StepExecution,
): Promise<readonly unknown[]> {
  const [list] = await evaluate(context, [items], frame);
  const fault = !Array.isArray(list)
    ? `items is not a list but ${list === null ? "null" : typeof list}`
    : list.length > maxItems
      ? `there are ${list.length} items and max_items is ${maxItems}`
      : undefined;
  if (fault !== undefined || !Array.isArray(list))
    throw new StepFailure({
      code: "INVALID_ITEMS",
      message: `step ${id}: ${fault ?? ""}`,
      step: id,
    });
  return list;
}

/** The output is that of the steps that were tried, or of those that caught their failure. */
export async function runTryStep(
  context: StepContext,
  step: TryStep,
  execution: StepExecution,
): Promise<StepResult> {
  return await runWithDeadline(context, step, execution, {}, async (signal) => {
    const tried = execution.frame.inner();
    try {
      const output = await context.runBlock(step.attempt, `${execution.path}/try/`, tried, signal);
      execution.frame.take(tried);
      return { output, next: step.next };
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof StepFailure) || error.isFatal) throw error;
      // The handler of a failure can read what succeeded before it.
      const caught = tried.inner({ error: error.failure });
      const output = await context.runBlock(
        step.rescue,
        `${execution.path}/catch/`,
        caught,
        signal,
      );
      execution.frame.take(tried, caught);
      return { output, next: step.next };
    }
  });
}
