/** One attempt of an agent step: waits for a slot, records the start, applies the timeout. */
import { randomUUID } from "node:crypto";
import type { AgentRunResult } from "../../runs/agent-executor.ts";
import type { AgentStep } from "../language/plan.ts";
import { withinTime } from "./deadline.ts";
import type { StepContext, StepExecution } from "./step-context.ts";

/** What the agent is told. */
export interface AgentWork {
  readonly task?: string;
  readonly input?: unknown;
}

export type Attempt =
  | { readonly output: unknown }
  | { readonly error: unknown; readonly number: number };

/** Throws only before the agent has started; afterwards errors are part of the result. */
export async function attemptAgent(
  context: StepContext,
  step: AgentStep,
  execution: StepExecution,
  { failures, ...work }: AgentWork & { readonly failures: number },
): Promise<Attempt> {
  return await context.slots.use(async () => {
    context.throwIfStopping();
    execution.signal.throwIfAborted();
    await refuseLostSandboxes(context);
    const runId = `run_${randomUUID().replaceAll("-", "")}`;
    const number = context.begin(step, execution, { data: { failures }, agentRunId: runId });
    const deadline = { clock: context.clock, ms: step.timeoutMs, what: `step ${step.id}` };
    try {
      const result = await withinTime(deadline, execution.signal, async (signal) => {
        const running = context.executor.execute({
          ...work,
          agentName: step.agent,
          runId,
          workflow: { runId: context.run.runId, stepId: step.id, scope: context.sandboxes.scope },
          signal,
        });
        return await resultOrAbort(context, step, running, signal);
      });
      return { output: outputOf(result) };
    } catch (error) {
      return { error, number };
    }
  }, context.waiting(execution.signal));
}

export function outputOf({ output, text }: AgentRunResult): unknown {
  return output === undefined ? text : output;
}

async function refuseLostSandboxes(context: StepContext): Promise<void> {
  const lost = await context.sandboxes.lost();
  if (lost === undefined) return;
  context.demandAttention(lost);
  context.throwIfStopping();
}

/** How long an agent may take to stop after it was told to. */
const STOP_GRACE_MS = 10_000;

/** The result, or the signal's reason if the agent does not stop for it. */
async function resultOrAbort(
  { clock, warn }: StepContext,
  { id, agent }: AgentStep,
  running: Promise<AgentRunResult>,
  signal: AbortSignal,
): Promise<AgentRunResult> {
  const done = new AbortController();
  const given = Promise.withResolvers<never>();
  const giveUp = async (): Promise<void> => {
    await clock.sleepUntil(clock.nowMs() + STOP_GRACE_MS, done.signal);
    warn(`agent ${agent} of step ${id} did not stop within ${STOP_GRACE_MS / 1000} s`);
    given.reject(signal.reason as Error);
  };
  // It rejects only when the agent is done.
  const stop = (): void => void giveUp().catch(() => undefined);
  signal.addEventListener("abort", stop, { once: true });
  try {
    return await Promise.race([running, given.promise]);
  } finally {
    signal.removeEventListener("abort", stop);
    done.abort();
  }
}
