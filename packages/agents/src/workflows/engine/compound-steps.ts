/** Steps that have steps inside: parallel, foreach and try. */
import type { ForeachStep, ParallelStep, TryStep } from "../language/plan.ts";
import { allOf } from "./all-of.ts";
import { withinTime } from "./deadline.ts";
import type { StepData } from "./run-records.ts";
import { StepFailure } from "./stops.ts";
import type { StepContext, StepResult, Visit } from "./step-context.ts";
import { evaluate } from "./step-context.ts";

type CompoundStep = ParallelStep | ForeachStep | TryStep;

/** Starts the step, or continues it where an earlier process stopped, with the same deadline. */
async function runWithDeadline<Result>(
  context: StepContext,
  step: CompoundStep,
  visit: Visit,
  data: StepData,
  work: (signal: AbortSignal) => Promise<Result>,
): Promise<Result> {
  const { clock } = context;
  const deadlineMs =
    visit.record?.data.deadlineMs ??
    (step.timeoutMs === undefined ? undefined : clock.nowMs() + step.timeoutMs);
  if (visit.record === undefined)
    context.begin(step, visit, {
      data: { ...data, ...(deadlineMs !== undefined && { deadlineMs }) },
    });
  const fromMs = (deadlineMs ?? 0) - (step.timeoutMs ?? 0);
  const what = `step ${step.id}`;
  return await withinTime({ clock, ms: step.timeoutMs, fromMs, what }, visit.signal, work);
}

/** The output has the output of each branch under its name. */
export async function runParallelStep(
  context: StepContext,
  step: ParallelStep,
  visit: Visit,
): Promise<StepResult> {
  return await runWithDeadline(context, step, visit, {}, async (signal) => {
    const ended = await allOf(
      step.branches,
      { maxConcurrency: step.maxConcurrency, signal, what: `another branch of ${step.id}` },
      async ({ name, block }, _index, inner) => {
        const frame = visit.frame.inner();
        const output = await context.runBlock(block, `${visit.path}/${name}/`, frame, inner);
        return { name, output, frame };
      },
    );
    visit.frame.take(...ended.map(({ frame }) => frame));
    const output = Object.fromEntries(ended.map(({ name, output: of }) => [name, of]));
    return { output, next: step.next };
  });
}

/** The output has the output of each item's last step, in the order of the items. */
export async function runForeachStep(
  context: StepContext,
  step: ForeachStep,
  visit: Visit,
): Promise<StepResult> {
  const items = visit.record?.data.items ?? (await itemsOf(context, step, visit));
  return await runWithDeadline(context, step, visit, { items }, async (signal) => {
    const output = await allOf(
      items,
      { maxConcurrency: step.maxConcurrency, signal, what: `another item of ${step.id}` },
      async (item, index, inner) => {
        const frame = visit.frame.inner({ [step.itemName]: item, index });
        return await context.runBlock(step.block, `${visit.path}/[${index}]/`, frame, inner);
      },
    );
    return { output, next: step.next };
  });
}

async function itemsOf(
  context: StepContext,
  { id, items, maxItems }: ForeachStep,
  { frame }: Visit,
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
  visit: Visit,
): Promise<StepResult> {
  return await runWithDeadline(context, step, visit, {}, async (signal) => {
    const tried = visit.frame.inner();
    try {
      const output = await context.runBlock(step.attempt, `${visit.path}/try/`, tried, signal);
      visit.frame.take(tried);
      return { output, next: step.next };
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof StepFailure) || error.isFatal) throw error;
      // What succeeded before the failure can be read while the failure is dealt with.
      const caught = tried.inner({ error: error.failure });
      const output = await context.runBlock(step.rescue, `${visit.path}/catch/`, caught, signal);
      visit.frame.take(tried, caught);
      return { output, next: step.next };
    }
  });
}
