/** Runs the agent of a step: its attempts, the pauses between them, and its timeout. */
import { randomUUID } from "node:crypto";
import type { AgentRunErrorCode, AgentRunResult } from "../../runs/agent-executor.ts";
import { AgentRunError } from "../../runs/agent-executor.ts";
import type { AgentStep, Retry } from "../language/plan.ts";
import { withinTime } from "./deadline.ts";
import type { Failure } from "./stops.ts";
import { StepFailure } from "./stops.ts";
import type { StepContext, StepResult, Visit } from "./step-context.ts";
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
  visit: Visit,
): Promise<StepResult> {
  const request = await requestOf(context, step, visit);
  let failures = visit.record?.data.failures ?? 0;
  if (visit.record?.status === "retrying")
    await context.clock.sleepUntil(visit.record.data.dueMs ?? 0, context.waiting(visit.signal));
  for (;;) {
    context.throwIfStopping();
    visit.signal.throwIfAborted();
    await refuseLostSandboxes(context);
    const agentRunId = `run_${randomUUID()}`;
    const attempt = context.begin(step, visit, { data: { failures }, agentRunId });
    try {
      const result = await withinTime(
        { clock: context.clock, ms: step.timeoutMs, what: `step ${step.id}` },
        visit.signal,
        async (signal) =>
          await heeding(context, step, signal, async () =>
            context.executor.execute({
              ...request,
              agentName: step.agent,
              runId: agentRunId,
              workflow: {
                runId: context.run.runId,
                stepId: step.id,
                scope: context.sandboxes.scope,
              },
              signal,
            }),
          ),
      );
      return { output: outputOf(result), next: step.next };
    } catch (error) {
      visit.signal.throwIfAborted();
      if (isInterruption(error)) {
        if (step.safe) continue;
        context.demandAttention(interruptionReason([step]));
        context.throwIfStopping();
      }
      const failure = failureOf(error, step);
      failures += 1;
      if (failures >= step.retry.maxAttempts || PERMANENT.has(failure.code))
        throw new StepFailure(failure, { cause: error });
      const dueMs = context.clock.nowMs() + pauseMs(step.retry, failures, context.random);
      const { path } = visit;
      context.journal.retryScheduled({ path, stepId: step.id, attempt }, failure, {
        dueMs,
        failures,
      });
      await context.clock.sleepUntil(dueMs, context.waiting(visit.signal));
    }
  }
}

async function requestOf(context: StepContext, step: AgentStep, { frame }: Visit) {
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

/** What a run was asked for is also what its agents are asked for, unless a step says otherwise. */
function defaultTask(input: unknown): string | undefined {
  if (typeof input === "string") return input;
  const task =
    typeof input === "object" && input !== null && "task" in input ? input.task : undefined;
  return typeof task === "string" ? task : undefined;
}

function outputOf({ output, text }: AgentRunResult): unknown {
  return output === undefined ? text : output;
}

function failureOf(error: unknown, step: AgentStep): Failure {
  if (error instanceof StepFailure) return { ...error.failure, step: step.id };
  if (error instanceof AgentRunError)
    return { code: error.code, message: `agent ${step.agent}: ${error.message}`, step: step.id };
  throw error;
}

/** Exponential backoff; the random part keeps steps that failed together from trying together. */
export function pauseMs(retry: Retry, failures: number, random: () => number): number {
  const wholeMs = Math.min(retry.maxBackoffMs, retry.backoffMs * 2 ** (failures - 1));
  return Math.round(wholeMs * (1 - retry.jitter * random()));
}

/** The executor gave up the agent because others took this process for dead. */
function isInterruption(error: unknown): boolean {
  return error instanceof AgentRunError && error.code === "PROCESS_ENDED";
}

/** Why a person has to decide about steps that were running when their process died. */
export function interruptionReason(steps: readonly Pick<AgentStep, "id" | "agent">[]): string {
  const [one] = steps;
  const named = steps.map(({ id, agent }) => `${id} (agent ${agent})`).join(", ");
  const which = steps.length === 1 ? `step ${named} was` : `steps ${named} were`;
  const again = steps.length === 1 ? `step ${one?.id ?? ""}` : "those steps";
  return `The process ended while ${which} running, and may have done part of the work already. Resume the run to start ${again} again from the beginning, or cancel the run. With \`safe: true\` a step starts again by itself.`;
}

/** How long an agent may take to stop once it was told to. */
const STOP_GRACE_MS = 10_000;

/** Does not wait for ever for an agent that does not stop. */
async function heeding(
  { clock, warn }: StepContext,
  { id, agent }: AgentStep,
  signal: AbortSignal,
  work: () => Promise<AgentRunResult>,
): Promise<AgentRunResult> {
  const done = new AbortController();
  const given = Promise.withResolvers<never>();
  const giveUp = async (): Promise<void> => {
    await clock.sleepUntil(clock.nowMs() + STOP_GRACE_MS, done.signal);
    warn(`agent ${agent} of step ${id} did not stop within ${STOP_GRACE_MS / 1000} s`);
    given.reject(signal.reason as Error);
  };
  // It rejects only when the work is done.
  const stop = (): void => void giveUp().catch(() => undefined);
  signal.addEventListener("abort", stop, { once: true });
  try {
    return await Promise.race([work(), given.promise]);
  } finally {
    signal.removeEventListener("abort", stop);
    done.abort();
  }
}

async function refuseLostSandboxes(context: StepContext): Promise<void> {
  const lost = await context.sandboxes.lost();
  if (lost === undefined) return;
  context.demandAttention(lost);
  context.throwIfStopping();
}
