/** What steps of every kind need from their run. */
import type { AgentExecutor } from "../../runs/agent-executor.ts";
import type { Slots } from "../../runs/slots.ts";
import type { Evaluator } from "../expressions/evaluator.ts";
import { EvaluationError } from "../expressions/evaluator.ts";
import type { Expression } from "../expressions/expression.ts";
import type { Template } from "../expressions/template.ts";
import { expressionsOf, fillTemplate } from "../expressions/template.ts";
import type { Block, Step } from "../language/plan.ts";
import type { Clock } from "./clock.ts";
import type { Frame } from "./frame.ts";
import type { RunJournal } from "./run-journal.ts";
import type { Decision, RunRecord, StepData, StepRecord } from "./run-records.ts";
import type { RunSandboxes } from "./run-sandboxes.ts";
import { StepFailure } from "./stops.ts";

/** The parts of the engine that a run uses. */
export interface RunParts {
  readonly run: RunRecord;
  readonly journal: RunJournal;
  readonly executor: Pick<AgentExecutor, "execute" | "finished">;
  /** Limits how many agents of all runs work at once. */
  readonly slots: Slots;
  readonly evaluator: Pick<Evaluator, "evaluate">;
  readonly sandboxes: RunSandboxes;
  readonly clock: Clock;
  /** From 0 to 1, for jitter. */
  readonly random: () => number;
  /** The decision about a step, or undefined if there is none yet. */
  readonly decisionFor: (path: string) => Decision | undefined;
  /** Resolves when something about runs may have changed. */
  readonly nextChange: (signal: AbortSignal) => Promise<void>;
  readonly warn: (message: string) => void;
}

/** One execution of one step. */
export interface StepExecution {
  readonly path: string;
  readonly frame: Frame;
  /** Fires when the step must end now. */
  readonly signal: AbortSignal;
  /** What an earlier process has recorded about this execution. */
  readonly record: StepRecord | undefined;
}

export interface StepResult {
  readonly output: unknown;
  readonly next: string | undefined;
}

/** What a step can request from the run. */
export interface StepContext extends RunParts {
  /** Also fires when no new work may start, for waits that another process can continue. */
  waiting(signal: AbortSignal): AbortSignal;
  /** Throws if no new work may start. */
  throwIfStopping(): void;
  /** Counts an execution and records its start. */
  begin(
    step: Step,
    execution: StepExecution,
    start: { readonly data?: StepData; readonly isWaiting?: boolean; readonly agentRunId?: string },
  ): number;
  runBlock(block: Block, prefix: string, frame: Frame, signal: AbortSignal): Promise<unknown>;
  /** Ends everything at the next step, so that a person can decide. */
  demandAttention(reason: string): void;
}

/** Throws StepFailure if an expression has no value. */
export async function evaluate(
  { evaluator }: Pick<StepContext, "evaluator">,
  expressions: readonly Expression[],
  frame: Frame,
  more: Readonly<Record<string, unknown>> = {},
): Promise<readonly unknown[]> {
  try {
    const sources = expressions.map(({ source }) => source);
    return await evaluator.evaluate(sources, { ...frame.variablesFor(expressions), ...more });
  } catch (error) {
    if (!(error instanceof EvaluationError)) throw error;
    throw new StepFailure({ code: "EXPRESSION_FAILED", message: error.message }, { cause: error });
  }
}

export async function fill(
  context: Pick<StepContext, "evaluator">,
  template: Template,
  frame: Frame,
): Promise<unknown> {
  const values = await evaluate(context, expressionsOf(template), frame);
  return fillTemplate(template, values.values());
}
