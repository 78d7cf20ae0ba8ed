/** What compiling a workflow collects while it reads the file. */
import type { Expression } from "../expressions/expression.ts";
import { ExpressionError, parseExpression } from "../expressions/expression.ts";
import type { CheckExpression, Template } from "../expressions/template.ts";
import { compileTemplate } from "../expressions/template.ts";
import type { Located, LocatedScalar } from "./located-yaml.ts";
import type { Block } from "./plan.ts";
import type { Place, Problems } from "./problem.ts";

/** One list of steps inside a step. */
export interface Container {
  readonly kind: "branch" | "foreach" | "try" | "catch";
  /** The id of the step that has the list. */
  readonly owner: string;
  readonly name: string;
}

/** The position of something in the workflow. */
export interface Surroundings {
  /** From the outermost list inwards. */
  readonly path: readonly Container[];
  /** Variables available in addition to the usual ones. */
  readonly variables: readonly string[];
}

export interface UsedExpression extends Surroundings {
  readonly stepId: string;
  readonly expression: Expression;
  placeOf(offset: number): Place;
}

/** The id that a block starts with, if one is given. */
export interface BlockStart {
  readonly values: { readonly start?: string | undefined };
  readonly located: { readonly start?: Located };
}

export type CompileBlock = (
  located: Located | undefined,
  beside: BlockStart,
  context: CompileContext,
  surroundings: Surroundings,
) => Block | undefined;

export interface CompileContext {
  /** Compiles the lists inside steps. */
  readonly compileBlock: CompileBlock;
  readonly problems: Problems;
  /** Every step by its id. */
  readonly ids: Map<string, { readonly place: Place; readonly path: readonly Container[] }>;
  readonly expressions: UsedExpression[];
}

/** Compiles the expressions and templates of one step. */
export class ExpressionCompiler {
  readonly #stepId: string;
  readonly #context: CompileContext;
  readonly #surroundings: Surroundings;

  constructor(stepId: string, context: CompileContext, surroundings: Surroundings) {
    this.#stepId = stepId;
    this.#context = context;
    this.#surroundings = surroundings;
  }

  /** The same with further variables. */
  with(...variables: readonly string[]): ExpressionCompiler {
    return new ExpressionCompiler(this.#stepId, this.#context, {
      ...this.#surroundings,
      variables: [...this.#surroundings.variables, ...variables],
    });
  }

  expression(located: Located | undefined): Expression | undefined {
    if (located?.kind !== "scalar" || typeof located.value !== "string") return undefined;
    return this.#check(located, located.value, 0);
  }

  template(located: Located | undefined): Template | undefined {
    if (located === undefined) return undefined;
    return compileTemplate(located, this.#check, this.#context.problems);
  }

  readonly #check: CheckExpression = (scalar: LocatedScalar, source, offset) => {
    const placeOf = (within: number): Place => scalar.placeOf(offset + within);
    try {
      const expression = parseExpression(source);
      this.#context.expressions.push({
        ...this.#surroundings,
        stepId: this.#stepId,
        expression,
        placeOf,
      });
      return expression;
    } catch (error) {
      if (!(error instanceof ExpressionError)) throw error;
      this.#context.problems.add(placeOf(error.offset), `step ${this.#stepId}: ${error.message}`);
      return undefined;
    }
  };
}
