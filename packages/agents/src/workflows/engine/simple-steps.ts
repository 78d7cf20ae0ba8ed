/** Steps that only compute or wait: switch, transform, timer, approval and end. */
import type {
  ApprovalStep,
  Condition,
  EndStep,
  SwitchStep,
  TimerStep,
  TransformStep,
} from "../language/plan.ts";
import { withinTime } from "./deadline.ts";
import { StepFailure } from "./stops.ts";
import type { StepContext, StepExecution, StepResult } from "./step-context.ts";
import { evaluate, fill } from "./step-context.ts";

export async function runSwitchStep(
  context: StepContext,
  step: SwitchStep,
  execution: StepExecution,
): Promise<StepResult> {
  context.begin(step, execution, {});
  const expressions = step.expression === undefined ? [] : [step.expression];
  const [value = null] = await evaluate(context, expressions, execution.frame);
  for (const { condition, next } of step.transitions)
    if (await holds(context, condition, value, execution)) return { output: { value, next }, next };
  if (step.otherwise !== undefined)
    return { output: { value, next: step.otherwise }, next: step.otherwise };
  const had = step.expression === undefined ? "" : ` for the value ${JSON.stringify(value)}`;
  throw new StepFailure({
    code: "NO_TRANSITION",
    message: `step ${step.id}: no condition is met${had}; add a default`,
    step: step.id,
  });
}

async function holds(
  context: StepContext,
  condition: Condition,
  value: unknown,
  { frame }: StepExecution,
): Promise<boolean> {
  if (condition.kind === "equals")
    return condition.value === value || isWrittenAs(condition.value, value);
  const [result] = await evaluate(context, [condition.expression], frame, { value });
  if (typeof result !== "boolean")
    throw new StepFailure({
      code: "EXPRESSION_FAILED",
      message: `\`${condition.expression.source}\` is ${JSON.stringify(result)}; a condition must be true or false`,
    });
  return result;
}

/** `condition: "true"` matches the value true, and `"3"` the number. */
function isWrittenAs(text: unknown, value: unknown): boolean {
  return (
    typeof text === "string" && typeof value !== "string" && JSON.stringify(value) === text.trim()
  );
}

export async function runTransformStep(
  context: StepContext,
  step: TransformStep,
  execution: StepExecution,
): Promise<StepResult> {
  context.begin(step, execution, {});
  return { output: await fill(context, step.output, execution.frame), next: step.next };
}

/** The time is recorded when the wait begins, so that a restart does not begin it again. */
export async function runTimerStep(
  context: StepContext,
  step: TimerStep,
  execution: StepExecution,
): Promise<StepResult> {
  let dueMs = execution.record?.data.dueMs;
  if (dueMs === undefined) {
    dueMs = await dueTimeOf(context, step, execution);
    context.begin(step, execution, { data: { dueMs }, isWaiting: true });
  }
  await context.clock.sleepUntil(dueMs, context.waiting(execution.signal));
  return { output: { due_at: new Date(dueMs).toISOString() }, next: step.next };
}

async function dueTimeOf(
  context: StepContext,
  { id, wait }: TimerStep,
  { frame }: StepExecution,
): Promise<number> {
  if ("ms" in wait) return context.clock.nowMs() + wait.ms;
  const [until] = await evaluate(context, [wait.until], frame);
  const dueMs = typeof until === "string" ? Date.parse(until) : Number.NaN;
  if (!Number.isNaN(dueMs)) return dueMs;
  throw new StepFailure({
    code: "INVALID_TIME",
    message: `step ${id}: until is ${JSON.stringify(until)}; it must be a timestamp or ISO 8601 text such as "2030-01-31T12:00:00Z"`,
    step: id,
  });
}

export async function runApprovalStep(
  context: StepContext,
  step: ApprovalStep,
  execution: StepExecution,
): Promise<StepResult> {
  const { clock } = context;
  let data = execution.record?.data;
  if (data?.message === undefined) {
    const message = await fill(context, step.message, execution.frame);
    data = {
      message: typeof message === "string" ? message : JSON.stringify(message),
      ...(step.timeoutMs !== undefined && { deadlineMs: clock.nowMs() + step.timeoutMs }),
    };
    context.begin(step, execution, { data, isWaiting: true });
  }
  const decision = await withinTime(
    {
      clock,
      ms: step.timeoutMs,
      fromMs: (data.deadlineMs ?? 0) - (step.timeoutMs ?? 0),
      what: `the approval of step ${step.id}`,
    },
    execution.signal,
    async (signal) => {
      for (;;) {
        const made = context.decisionFor(execution.path);
        if (made !== undefined) return made;
        await context.nextChange(context.waiting(signal));
      }
    },
  );
  const output = {
    approved: decision.approved,
    comment: decision.comment ?? null,
    at: decision.at,
  };
  if (decision.approved) return { output, next: step.next };
  if (step.onReject !== undefined) return { output, next: step.onReject };
  const why = decision.comment === undefined ? "" : `: ${decision.comment}`;
  throw new StepFailure({
    code: "REJECTED",
    message: `step ${step.id} was rejected${why}`,
    step: step.id,
  });
}

export async function runEndStep(
  context: StepContext,
  step: EndStep,
  execution: StepExecution,
): Promise<StepResult> {
  context.begin(step, execution, {});
  if (step.failure !== undefined) {
    const message = await fill(context, step.failure, execution.frame);
    throw new StepFailure({
      code: "ENDED_AS_FAILED",
      message: typeof message === "string" ? message : JSON.stringify(message),
      step: step.id,
    });
  }
  const output =
    step.output === undefined
      ? execution.frame.last
      : await fill(context, step.output, execution.frame);
  return { output, next: undefined };
}
