/** Compiles the plans of runs from the files that they started with. */
import { compileWorkflow } from "../language/compile.ts";
import type { Plan } from "../language/plan.ts";
import { describeProblems } from "../language/problem.ts";
import type { RunRecord } from "./run-records.ts";

/** Compiling a long workflow takes many milliseconds, and one workflow often has many runs. */
const MAX_KEPT = 50;

export class StoredPlans {
  readonly #kept = new Map<string, Plan>();

  /** The plan, or why this version cannot compile it. */
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
