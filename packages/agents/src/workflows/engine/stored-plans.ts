/** The plans of runs, made again from the file that each run started with. */
import { compileWorkflow } from "../language/compile.ts";
import type { Plan } from "../language/plan.ts";
import { describeProblems } from "../language/problem.ts";
import type { RunRecord } from "./run-records.ts";

/** Runs of one workflow mostly come together, and compiling a long one takes many milliseconds. */
const MAX_KEPT = 50;

export class StoredPlans {
  readonly #kept = new Map<string, Plan>();

  /** The plan, or why there is none any more. */
  get({ source, file, workflowId }: RunRecord): Plan | string {
    const key = `${workflowId}\n${source}`;
    const known = this.#kept.get(key);
    if (known !== undefined) return known;
    const { plan, problems } = compileWorkflow(source, workflowId);
    if (plan === undefined)
      return `The workflow cannot be run by this version: ${describeProblems(file, problems).join("; ")}`;
    const [oldest] = this.#kept.keys();
    if (this.#kept.size >= MAX_KEPT && oldest !== undefined) this.#kept.delete(oldest);
    this.#kept.set(key, plan);
    return plan;
  }
}
