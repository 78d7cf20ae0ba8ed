/** Executes the plan of one run: replays recorded steps and runs the others. */
import type { Block, Plan, Step } from "../language/plan.ts";
import { allSteps } from "../language/plan.ts";
import { finishedRun, interruptionReason, runAgentStep } from "./agent-step.ts";
import { runForeachStep, runParallelStep, runTryStep } from "./compound-steps.ts";
import { Frame } from "./frame.ts";
import { MAX_OUTPUT_BYTES, MAX_RUN_BYTES } from "./limits.ts";
import type { RunEnd } from "./run-journal.ts";
import type { StepRecord } from "./run-records.ts";
import {
  runApprovalStep,
  runEndStep,
  runSwitchStep,
  runTimerStep,
  runTransformStep,
} from "./simple-steps.ts";
import type { RunParts, StepContext, StepExecution, StepResult } from "./step-context.ts";
import type { Failure } from "./stops.ts";
import { RunStop, StepFailure, StepStopped } from "./stops.ts";

export type Outcome =
  | { readonly kind: "ended"; readonly end: RunEnd }
  | { readonly kind: "attention"; readonly reason: string }
  /** Another process continues the run. */
  | { readonly kind: "left"; readonly because: "lost" | "shutdown" };

/** Their output does not become the output of the block that contains them. */
const WITHOUT_RESULT: ReadonlySet<Step["type"]> = new Set<Step["type"]>([
  "switch",
  "timer",
  "approval",
]);

export class RunExecution {
  readonly #parts: RunParts;
  readonly #plan: Plan;
  readonly #records: Map<string, StepRecord>;
  readonly #attempts = new Map<string, number>();
  readonly #context: StepContext;
  /** Ends everything now. */
  readonly #hard = new AbortController();
  /** Lets running steps finish and starts no others. */
  readonly #soft = new AbortController();
  #number: number;
  #bytes: number;

  constructor(parts: RunParts, plan: Plan, records: readonly StepRecord[]) {
    this.#parts = parts;
    this.#plan = plan;
    this.#records = new Map(records.map((record) => [record.path, record]));
    this.#number = records.at(-1)?.number ?? 0;
    this.#bytes = records.reduce((sum, { output }) => sum + bytesOf(output), 0);
    this.#context = {
      ...parts,
      waiting: (signal) => AbortSignal.any([signal, this.#soft.signal]),
      throwIfStopping: () => this.#throwIfStopping(),
      begin: (step, execution, start) => this.#begin(step, execution, start),
      runBlock: (block, prefix, frame, signal) => this.#runBlock(block, prefix, frame, signal),
      demandAttention: (reason) => this.#soft.abort(new RunStop("attention", reason)),
    };
  }

  cancel(): void {
    this.#hard.abort(new RunStop("cancelled"));
  }

  /** Another process has the run. */
  lose(): void {
    this.#hard.abort(new RunStop("lost"));
  }

  /** Starts nothing new; `stop` ends running steps. */
  drain(): void {
    this.#soft.abort(new RunStop("shutdown"));
  }

  stop(): void {
    this.#hard.abort(new RunStop("shutdown"));
  }

  async run(): Promise<Outcome> {
    try {
      if (this.#parts.run.isCancelRequested) return { kind: "ended", end: { status: "cancelled" } };
      const reason = this.#whyNotToGoOn();
      if (reason !== undefined) return { kind: "attention", reason };
      this.#parts.journal.runStarted(this.#parts.run.startedAt !== undefined);
      const { run } = this.#parts;
      const frame = new Frame({
        input: run.input,
        run: { id: run.runId, workflow_id: run.workflowId, created_at: run.createdAt },
      });
      const output = await this.#runBlock(this.#plan.root, "", frame, this.#hard.signal);
      return { kind: "ended", end: { status: "succeeded", output } };
    } catch (error) {
      return this.#outcomeOf(this.#hard.signal.aborted ? this.#hard.signal.reason : error);
    }
  }

  #outcomeOf(error: unknown): Outcome {
    if (error instanceof RunStop) {
      if (error.kind === "cancelled") return { kind: "ended", end: { status: "cancelled" } };
      if (error.kind === "attention") return { kind: "attention", reason: error.message };
      return { kind: "left", because: error.kind };
    }
    if (error instanceof StepFailure)
      return { kind: "ended", end: { status: "failed", error: error.failure } };
    throw error;
  }

  /** Steps that were running when their process died, and that only a person may restart. */
  #whyNotToGoOn(): string | undefined {
    const agents = new Map(
      allSteps(this.#plan.root).flatMap((step) => (step.type === "agent" ? [[step.id, step]] : [])),
    );
    const interrupted = [...this.#records.values()].flatMap((record) => {
      const step = agents.get(record.stepId);
      if (record.status !== "running" || step === undefined || step.safe) return [];
      return finishedRun(this.#parts, record) === undefined ? [step] : [];
    });
    return interrupted.length === 0 ? undefined : interruptionReason(interrupted);
  }

  async #runBlock(
    block: Block,
    prefix: string,
    frame: Frame,
    signal: AbortSignal,
  ): Promise<unknown> {
    const steps = new Map(block.steps.map((step) => [step.id, step]));
    const executions = new Map<string, number>();
    for (let id: string | undefined = block.start; id !== undefined;) {
      const step = steps.get(id);
      if (step === undefined) throw new Error(`the plan has no step ${id}`);
      const times = (executions.get(id) ?? 0) + 1;
      executions.set(id, times);
      const path = `${prefix}${id}:${times}`;
      const record = this.#records.get(path);
      const result = await this.#runStep(step, { path, frame, signal, record }, times);
      frame.outputs.set(id, result.output);
      if (!WITHOUT_RESULT.has(step.type)) frame.last = result.output;
      id = result.next;
    }
    return frame.last;
  }

  async #runStep(step: Step, execution: StepExecution, times: number): Promise<StepResult> {
    const { path, record } = execution;
    if (record?.status === "succeeded") {
      this.#restoreInner(record, execution.frame);
      return { output: record.output, next: record.next };
    }
    if (record?.status === "failed") throw new StepFailure(record.error ?? unknownFailure(step));
    if (record?.status === "cancelled") throw new StepStopped(record.error?.message);
    const written = { path, stepId: step.id, type: step.type };
    try {
      execution.signal.throwIfAborted();
      this.#throwIfStopping();
      this.#refuseTooMany(step, execution, times);
      const result = await this.#perform(step, execution);
      execution.signal.throwIfAborted();
      this.#refuseLarge(step, result.output);
      const sandboxes = step.type === "agent" ? await this.#parts.sandboxes.used() : undefined;
      this.#parts.journal.stepSucceeded(written, result, sandboxes);
      return result;
    } catch (error) {
      const reason: unknown = execution.signal.aborted ? execution.signal.reason : error;
      // A cancelled run ends its steps when it ends; a run that another process has must not
      // change.
      if (reason instanceof RunStop) throw reason;
      if (!this.#attempts.has(path) && record === undefined)
        this.#begin(step, execution, { isWaiting: step.type === "timer" });
      if (reason instanceof StepStopped) {
        this.#parts.journal.stepFailed(written, "cancelled", {
          code: "STOPPED",
          message: reason.message,
        });
        throw reason;
      }
      const failure = asFailure(reason, step);
      this.#parts.journal.stepFailed(written, "failed", failure.failure);
      throw failure;
    }
  }

  async #perform(step: Step, execution: StepExecution): Promise<StepResult> {
    const context = this.#context;
    switch (step.type) {
      case "agent":
        return await runAgentStep(context, step, execution);
      case "switch":
        return await runSwitchStep(context, step, execution);
      case "parallel":
        return await runParallelStep(context, step, execution);
      case "foreach":
        return await runForeachStep(context, step, execution);
      case "transform":
        return await runTransformStep(context, step, execution);
      case "approval":
        return await runApprovalStep(context, step, execution);
      case "try":
        return await runTryStep(context, step, execution);
      case "timer":
        return await runTimerStep(context, step, execution);
      case "end":
        return await runEndStep(context, step, execution);
    }
  }

  #begin(
    step: Step,
    { path, record }: StepExecution,
    start: Parameters<StepContext["begin"]>[2],
  ): number {
    const attempt = (this.#attempts.get(path) ?? record?.attempt ?? 0) + 1;
    const number = record?.number ?? this.#number + 1;
    this.#parts.journal.stepStarted({
      path,
      number,
      stepId: step.id,
      type: step.type,
      attempt,
      data: start.data ?? {},
      status: start.isWaiting === true ? "waiting" : "running",
      agentRunId: start.agentRunId,
    });
    this.#number = Math.max(this.#number, number);
    this.#attempts.set(path, attempt);
    return attempt;
  }

  /** The outputs that were visible after a compound step when it ended. */
  #restoreInner({ path }: StepRecord, frame: Frame): void {
    const inside = [...this.#records.values()]
      .filter((record) => record.path.startsWith(`${path}/`) && this.#wasVisible(record, path))
      .toSorted((a, b) => a.number - b.number);
    for (const { stepId, output } of inside) frame.outputs.set(stepId, output);
  }

  /** Steps of a foreach item, and steps inside a failed step, are not visible. */
  #wasVisible({ path, status }: StepRecord, outer: string): boolean {
    if (status !== "succeeded") return false;
    const inner = path.slice(outer.length + 1).split("/");
    return inner.every((part, index) => {
      if (part.startsWith("[")) return false;
      const around = this.#records.get(`${outer}/${inner.slice(0, index + 1).join("/")}`);
      return around === undefined || around.status === "succeeded";
    });
  }

  #refuseTooMany(step: Step, { record }: StepExecution, times: number): void {
    if (times > step.maxVisits)
      throw new StepFailure({
        code: "LOOP_LIMIT",
        message: `step ${step.id} has been reached ${times} times, and its max_visits is ${step.maxVisits}; raise max_visits if the loop needs more rounds`,
        step: step.id,
      });
    if (record === undefined && this.#number >= this.#plan.maxSteps)
      throw new StepFailure(
        {
          code: "STEP_LIMIT",
          message: `the run has taken ${this.#plan.maxSteps} steps, which is its max_steps`,
          step: step.id,
        },
        { isFatal: true },
      );
  }

  #refuseLarge(step: Step, output: unknown): void {
    const bytes = bytesOf(output);
    if (bytes > MAX_OUTPUT_BYTES)
      throw new StepFailure({
        code: "OUTPUT_TOO_LARGE",
        message: `the output of step ${step.id} has ${bytes} bytes; at most ${MAX_OUTPUT_BYTES} are kept. Let the agent write large results to files in the sandbox`,
        step: step.id,
      });
    this.#bytes += bytes;
    if (this.#bytes > MAX_RUN_BYTES)
      throw new StepFailure(
        {
          code: "OUTPUT_TOO_LARGE",
          message: `the outputs of all steps together have more than ${MAX_RUN_BYTES} bytes. Let agents write large results to files in the sandbox`,
          step: step.id,
        },
        { isFatal: true },
      );
  }

  #throwIfStopping(): void {
    this.#hard.signal.throwIfAborted();
    this.#soft.signal.throwIfAborted();
  }
}

function asFailure(error: unknown, step: Step): StepFailure {
  if (!(error instanceof StepFailure)) throw error;
  const { failure, isFatal } = error;
  const named: Failure = { ...failure, step: failure.step ?? step.id };
  return new StepFailure(named, { isFatal, cause: error });
}

function unknownFailure({ id }: Step): Failure {
  return { code: "INTERNAL_ERROR", message: `step ${id} failed`, step: id };
}

function bytesOf(output: unknown): number {
  return output === undefined ? 0 : Buffer.byteLength(JSON.stringify(output));
}
