/** Runs the agent of a step: its attempts and the pauses between them. */
import type { AgentRunErrorCode } from "../../runs/agent-executor.ts";
import { AgentRunError } from "../../runs/agent-executor.ts";
import type { AgentStep, Retry } from "../language/plan.ts";
import type { AgentWork } from "./agent-attempt.ts";
import { attemptAgent, outputOf } from "./agent-attempt.ts";
import type { Failure } from "./stops.ts";
import { StepFailure } from "./stops.ts";
import type { StepContext, StepExecution, StepResult } from "./step-context.ts";
import { fill } from "./step-context.ts";

/** Another attempt would fail in the same way. */
const PERMANENT: ReadonlySet<string> = new Set<AgentRunErrorCode>([
  "AGENT_NOT_FOUND",
  "AGENT_INVALID",
  "RUN_EXISTS",
  "INVALID_INPUT",
  "MODEL_NOT_CONFIGURED",
  "CANCELLED",
]);

export async function runAgentStep(
  context: StepContext,
  step: AgentStep,
  execution: StepExecution,
): Promise<StepResult> {
  const { next } = step;
  const { record, signal } = execution;
  // The earlier process died after the agent had ended, but before it recorded the result.
  const finished = record && finishedRun(context, record);
  if (finished !== undefined) return { output: outputOf(finished), next };
  const work = await workOf(context, step, execution);
  let failures = record?.data.failures ?? 0;
  if (record?.status === "retrying")
    await context.clock.sleepUntil(record.data.dueMs ?? 0, context.waiting(signal));
  for (;;) {
    const attempt = await attemptAgent(context, step, execution, { ...work, failures });
    if ("output" in attempt) return { output: attempt.output, next };
    signal.throwIfAborted();
    if (attempt.error instanceof AgentRunError && attempt.error.code === "PROCESS_ENDED") {
      // The executor stopped the agent because other processes considered this one dead.
      if (step.safe) continue;
      context.demandAttention(interruptionReason([step]));
      context.throwIfStopping();
    }
    const failure = failureOf(attempt.error, step);
    failures += 1;
    if (failures >= step.retry.maxAttempts || PERMANENT.has(failure.code))
      throw new StepFailure(failure, { cause: attempt.error });
    const dueMs = context.clock.nowMs() + pauseMs(step.retry, failures, context.random);
    const written = { path: execution.path, stepId: step.id, attempt: attempt.number };
    context.journal.retryScheduled(written, failure, { dueMs, failures });
    await context.clock.sleepUntil(dueMs, context.waiting(signal));
  }
}

/** The result of an agent run that an earlier process did not record. */
export function finishedRun(
  { executor }: Pick<StepContext, "executor">,
  { status, agentRunId }: NonNullable<StepExecution["record"]>,
): ReturnType<StepContext["executor"]["finished"]> {
  return status === "running" ? executor.finished(agentRunId) : undefined;
}

async function workOf(
  context: StepContext,
  step: AgentStep,
  { frame }: StepExecution,
): Promise<AgentWork> {
  const task =
    step.task === undefined
      ? defaultTask(context.run.input)
      : await fill(context, step.task, frame);
  const input = step.input && (await fill(context, step.input, frame));
  return {
    ...(task !== undefined && { task: typeof task === "string" ? task : JSON.stringify(task) }),
    ...(input !== undefined && { input }),
  };
}

/** Values requested for a run also apply to its agents, unless a step sets its own. */
function defaultTask(input: unknown): string | undefined {
  if (typeof input === "string") return input;
  const task =
    typeof input === "object" && input !== null && "task" in input ? input.task : undefined;
  return typeof task === "string" ? task : undefined;
}

function failureOf(error: unknown, step: AgentStep): Failure {
  if (error instanceof StepFailure) return { ...error.failure, step: step.id };
  if (error instanceof AgentRunError)
    return { code: error.code, message: `agent ${step.agent}: ${error.message}`, step: step.id };
  throw error;
}

/** Exponential backoff; jitter keeps steps that failed together from retrying together. */
function pauseMs(retry: Retry, failures: number, random: () => number): number {
  const wholeMs = Math.min(retry.maxBackoffMs, retry.backoffMs * 2 ** (failures - 1));
  return Math.round(wholeMs * (1 - retry.jitter * random()));
}

/** Why a person has to decide about steps that were running when their process died. */
export function interruptionReason(steps: readonly Pick<AgentStep, "id" | "agent">[]): string {
  const [one] = steps;
  const named = steps.map(({ id, agent }) => `${id} (agent ${agent})`).join(", ");
  const which = steps.length === 1 ? `step ${named} was` : `steps ${named} were`;
  const again = steps.length === 1 ? `step ${one?.id ?? ""}` : "those steps";
  return `The process ended while ${which} running, and may have done part of the work already. Resume the run to start ${again} again from the beginning, or cancel the run. With \`safe: true\` a step starts again by itself.`;
}
