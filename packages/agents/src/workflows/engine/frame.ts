/** What the expressions of a step can read: outputs of steps, items, errors, and facts of the run. */
import type { Expression } from "../expressions/expression.ts";

export class Frame {
  /** Outputs of the steps that ended in this block. */
  readonly outputs = new Map<string, unknown>();
  /** The output that the block has so far. */
  last: unknown = null;
  readonly #parent: Frame | undefined;
  readonly #variables: Readonly<Record<string, unknown>>;

  constructor(variables: Readonly<Record<string, unknown>>, parent?: Frame) {
    this.#variables = variables;
    this.#parent = parent;
  }

  /** A frame for a nested block: it sees this one's values and does not change them. */
  inner(variables: Readonly<Record<string, unknown>> = {}): Frame {
    return new Frame(variables, this);
  }

  /** Adopts the outputs of blocks that have ended. */
  take(...ended: readonly Frame[]): void {
    for (const { outputs } of ended)
      for (const [id, output] of outputs) this.outputs.set(id, output);
  }

  /** Only what the expressions read: outputs can be large. */
  variablesFor(expressions: readonly Expression[]): Record<string, unknown> {
    const variables = plainRecord();
    for (const { name } of expressions.flatMap((expression) => expression.variables)) {
      const found = name === "steps" ? undefined : this.#variable(name);
      if (found !== undefined) variables[name] = found;
    }
    const readsAll = expressions.some(({ steps }) => steps === undefined);
    const names = expressions.flatMap(({ steps = [] }) => steps.map(({ name }) => name));
    variables["steps"] = this.#steps(readsAll ? undefined : new Set(names));
    return variables;
  }

  #variable(name: string): unknown {
    if (Object.hasOwn(this.#variables, name)) return this.#variables[name];
    return this.#parent === undefined ? undefined : this.#parent.#variable(name);
  }

  #steps(wanted: ReadonlySet<string> | undefined): Record<string, unknown> {
    const steps = this.#parent === undefined ? plainRecord() : this.#parent.#steps(wanted);
    for (const [id, output] of this.outputs)
      if (wanted === undefined || wanted.has(id)) steps[id] = { output };
    return steps;
  }
}

/** Without a prototype, so that a step can be named `__proto__`. */
function plainRecord(): Record<string, unknown> {
  return Object.create(null) as Record<string, unknown>;
}
