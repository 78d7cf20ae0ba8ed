/** The checked content of a workflow file, in one form for all spellings. */
import type { Expression } from "../expressions/expression.ts";
import type { Template } from "../expressions/template.ts";
import type { Place } from "./problem.ts";

export interface Plan {
  readonly id: string;
  readonly name: string | undefined;
  readonly description: string | undefined;
  readonly version: string | undefined;
  readonly inputSchema:
    | { readonly value: Readonly<Record<string, unknown>>; readonly place: Place }
    | undefined;
  /** The maximum number of steps of a run. */
  readonly maxSteps: number;
  /** How long sandboxes outlive the run. */
  readonly retainMs: number;
  readonly root: Block;
}

/** A sequence of steps; `next` never leads out of it. */
export interface Block {
  readonly start: string;
  readonly steps: readonly Step[];
}

interface StepBase {
  readonly id: string;
  readonly name: string | undefined;
  readonly description: string | undefined;
  readonly place: Place;
  /** How often one run of the block may reach this step. */
  readonly maxVisits: number;
}

/** Followed by another step, or by the end of the block. */
interface Flowing extends StepBase {
  readonly next: string | undefined;
}

interface Timed extends Flowing {
  readonly timeoutMs: number | undefined;
}

export interface AgentStep extends Timed {
  readonly type: "agent";
  readonly agent: string;
  readonly task: Template | undefined;
  readonly input: Template | undefined;
  readonly retry: Retry;
  /** May run again from its start after a crash. */
  readonly safe: boolean;
}

export interface Retry {
  readonly maxAttempts: number;
  readonly backoffMs: number;
  readonly maxBackoffMs: number;
  /** The share of each pause that is random, from 0 to 1. */
  readonly jitter: number;
}

export interface SwitchStep extends StepBase {
  readonly type: "switch";
  readonly expression: Expression | undefined;
  readonly transitions: readonly Transition[];
  readonly otherwise: string | undefined;
}

export interface Transition {
  readonly condition: Condition;
  readonly next: string;
}

export type Condition =
  /**
   * Matches if the step's expression has this value; a text also matches a value written as that
   * text.
   */
  | { readonly kind: "equals"; readonly value: string | number | boolean | null }
  | { readonly kind: "true"; readonly expression: Expression };

export interface ParallelStep extends Timed {
  readonly type: "parallel";
  readonly branches: readonly Branch[];
  readonly maxConcurrency: number;
}

export interface Branch {
  readonly name: string;
  readonly block: Block;
}

export interface ForeachStep extends Timed {
  readonly type: "foreach";
  readonly items: Expression;
  readonly itemName: string;
  readonly block: Block;
  readonly maxConcurrency: number;
  readonly maxItems: number;
}

export interface TransformStep extends Flowing {
  readonly type: "transform";
  readonly output: Template;
}

export interface ApprovalStep extends Timed {
  readonly type: "approval";
  readonly message: Template;
  readonly onReject: string | undefined;
}

export interface TryStep extends Timed {
  readonly type: "try";
  readonly attempt: Block;
  readonly rescue: Block;
}

export interface TimerStep extends Flowing {
  readonly type: "timer";
  readonly wait: { readonly ms: number } | { readonly until: Expression };
}

export interface EndStep extends StepBase {
  readonly type: "end";
  readonly output: Template | undefined;
  /** Set if the step fails. */
  readonly failure: Template | undefined;
}

export type Step =
  | AgentStep
  | SwitchStep
  | ParallelStep
  | ForeachStep
  | TransformStep
  | ApprovalStep
  | TryStep
  | TimerStep
  | EndStep;

/** A list of steps inside a step, and its name there. */
export interface InnerBlock {
  readonly label: string;
  readonly block: Block;
}

export function innerBlocks(step: Step): readonly InnerBlock[] {
  switch (step.type) {
    case "parallel":
      return step.branches.map(({ name, block }) => ({ label: name, block }));
    case "foreach":
      return [{ label: "each", block: step.block }];
    case "try":
      return [
        { label: "try", block: step.attempt },
        { label: "catch", block: step.rescue },
      ];
    default:
      return [];
  }
}

/** All steps of a block, including nested ones. */
export function allSteps(block: Block): readonly Step[] {
  return block.steps.flatMap((step) => [
    step,
    ...innerBlocks(step).flatMap((inner) => allSteps(inner.block)),
  ]);
}

/** The steps that a step can lead to in its block; undefined is the end of the block. */
export function exitsOf(
  step: Step,
): readonly { readonly to: string | undefined; readonly label?: string }[] {
  switch (step.type) {
    case "end":
      return [{ to: undefined }];
    case "switch":
      return [
        ...step.transitions.map(({ condition, next }) => ({
          to: next,
          label:
            condition.kind === "equals" ? String(condition.value) : condition.expression.source,
        })),
        ...(step.otherwise === undefined ? [] : [{ to: step.otherwise, label: "otherwise" }]),
      ];
    case "approval":
      return [
        { to: step.next, ...(step.onReject !== undefined && { label: "approved" }) },
        ...(step.onReject === undefined ? [] : [{ to: step.onReject, label: "rejected" }]),
      ];
    default:
      return [{ to: step.next }];
  }
}
