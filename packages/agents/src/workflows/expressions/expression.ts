/** Parses a CEL expression and checks, before it runs, what it calls and what it refers to. */
import { parse } from "@bufbuild/cel";
import { didYouMean } from "../../suggested-name.ts";
import { CALLABLE_NAMES, MACRO_NAMES, TYPE_NAMES } from "./cel-functions.ts";

/** A parsed and checked expression. */
export interface Expression {
  readonly source: string;
  /** The variables that it reads, except those that its own macros introduce. */
  readonly variables: readonly Reference[];
  /** The steps that it reads, or undefined if it chooses them only at run time. */
  readonly steps: readonly Reference[] | undefined;
}

export interface Reference {
  readonly name: string;
  /** The position in the source. */
  readonly offset: number;
}

/** A mistake in an expression. */
export class ExpressionError extends Error {
  override readonly name = "ExpressionError";
  readonly offset: number;

  constructor(message: string, offset = 0) {
    super(message);
    this.offset = offset;
  }
}

export const MAX_EXPRESSION_LENGTH = 8000;
const MAX_DEPTH = 100;
/** How deep map(), filter(), all(), exists() … may be nested: each level multiplies the work. */
export const MAX_MACRO_DEPTH = 3;

type Expr = ReturnType<typeof parse>["expr"];

/** Throws ExpressionError. */
export function parseExpression(source: string): Expression {
  if (source.length > MAX_EXPRESSION_LENGTH)
    throw new ExpressionError(
      `the expression is longer than ${MAX_EXPRESSION_LENGTH} characters; do the work in an agent step`,
    );
  const analysis = new Analysis(parseSource(source));
  return { source, variables: analysis.variables, steps: analysis.steps };
}

interface Parsed {
  readonly expr: Expr;
  readonly offsets: Readonly<Record<string, number>>;
}

function parseSource(source: string): Parsed {
  try {
    const { expr, sourceInfo } = parse(source);
    return { expr, offsets: sourceInfo?.positions ?? {} };
  } catch (error) {
    if (error instanceof RangeError)
      throw new ExpressionError("the expression is nested too deeply");
    const { rawMessage, location } = error as {
      readonly rawMessage?: string;
      readonly location?: { readonly start: { readonly offset: number } };
    };
    if (source.trim() === "") throw new ExpressionError("the expression is empty");
    const { expected } = error as { readonly expected?: readonly unknown[] };
    // A list of nearly everything that CEL allows would not help the author.
    const text =
      (expected?.length ?? 0) > 4 ? rawMessage?.replace(/ but expecting .*/, "") : rawMessage;
    throw new ExpressionError(
      `the expression is not valid CEL: ${text ?? String(error)}`,
      location?.start.offset ?? 0,
    );
  }
}

/** Visits every part of an expression once. */
class Analysis {
  readonly variables: Reference[] = [];
  steps: Reference[] | undefined = [];
  readonly #offsets: Readonly<Record<string, number>>;

  constructor({ expr, offsets }: Parsed) {
    this.#offsets = offsets;
    this.#walk(expr, { bound: new Set(), depth: 0, macroDepth: 0 });
  }

  #walk(expr: Expr, outer: Scope): void {
    const here: Scope = { ...outer, depth: outer.depth + 1 };
    if (here.depth > MAX_DEPTH)
      throw new ExpressionError("the expression is nested too deeply", this.#offset(expr));
    const { exprKind } = expr;
    switch (exprKind.case) {
      case "identExpr":
        this.#variable(expr, exprKind.value.name, here);
        return;
      case "constExpr":
        if (exprKind.value.constantKind.case === "bytesValue")
          throw new ExpressionError("bytes cannot be used here; use text", this.#offset(expr));
        return;
      case "selectExpr":
        this.#select(exprKind.value.operand, exprKind.value.field, here);
        return;
      case "callExpr": {
        const { function: name, target, args } = exprKind.value;
        this.#call(expr, name, target !== undefined);
        const [container, key] = args;
        const constant = key === undefined ? undefined : textOf(key);
        if (name === "_[_]" && container !== undefined && constant !== undefined) {
          this.#select(container, constant, here);
          return;
        }
        for (const part of [target, ...args]) if (part !== undefined) this.#walk(part, here);
        return;
      }
      case "listExpr":
        for (const element of exprKind.value.elements) this.#walk(element, here);
        return;
      case "structExpr":
        this.#struct(expr, exprKind.value, here);
        return;
      case "comprehensionExpr":
        this.#comprehension(expr, exprKind.value, here);
        return;
      case undefined:
        throw new ExpressionError("the expression is not valid CEL", this.#offset(expr));
    }
  }

  #variable(expr: Expr, name: string, { bound }: Scope): void {
    if (bound.has(name) || TYPE_NAMES.has(name)) return;
    this.variables.push({ name, offset: this.#offset(expr) });
    // All steps at once: `steps` alone, or `steps[…]` with a name that is only known later.
    if (name === "steps") this.steps = undefined;
  }

  #select(operand: Expr | undefined, field: string, here: Scope): void {
    if (operand === undefined) return;
    const { exprKind } = operand;
    const isSteps = exprKind.case === "identExpr" && exprKind.value.name === "steps";
    if (!isSteps || here.bound.has("steps")) {
      this.#walk(operand, here);
      return;
    }
    this.variables.push({ name: "steps", offset: this.#offset(operand) });
    this.steps?.push({ name: field, offset: this.#offset(operand) });
  }

  #call(expr: Expr, name: string, isMethod: boolean): void {
    // Operators have internal names that cannot be written.
    if (CALLABLE_NAMES.has(name) || !/^\w+$/.test(name)) return;
    const shown = isMethod ? `.${name}()` : `${name}()`;
    const offset = Math.max(0, this.#offset(expr) - (isMethod ? 0 : name.length));
    if (MACRO_NAMES.has(name))
      throw new ExpressionError(`${shown} has the wrong arguments`, offset);
    const hint = didYouMean(name, [...CALLABLE_NAMES, ...MACRO_NAMES]).replace(
      /; known are .*/,
      "",
    );
    throw new ExpressionError(`there is no function ${shown}${hint}`, offset);
  }

  #struct(expr: Expr, struct: Struct, here: Scope): void {
    if (struct.messageName !== "")
      throw new ExpressionError(
        `${struct.messageName}{…} cannot be created here; write a map: {"name": value}`,
        this.#offset(expr),
      );
    for (const { keyKind, value } of struct.entries) {
      if (keyKind.case === "mapKey") this.#walk(keyKind.value, here);
      if (value !== undefined) this.#walk(value, here);
    }
  }

  #comprehension(expr: Expr, loop: Comprehension, here: Scope): void {
    const macroDepth = here.macroDepth + 1;
    if (macroDepth > MAX_MACRO_DEPTH)
      throw new ExpressionError(
        `map(), filter(), all(), exists() and the like can be nested ${MAX_MACRO_DEPTH} deep`,
        this.#offset(expr),
      );
    if (loop.iterRange !== undefined) this.#walk(loop.iterRange, here);
    const bound = new Set([...here.bound, loop.iterVar, loop.accuVar]);
    const inside: Scope = { ...here, bound, macroDepth };
    for (const part of [loop.accuInit, loop.loopCondition, loop.loopStep, loop.result])
      if (part !== undefined) this.#walk(part, inside);
  }

  #offset(expr: Expr): number {
    return this.#offsets[String(expr.id)] ?? 0;
  }
}

interface Scope {
  readonly bound: ReadonlySet<string>;
  readonly depth: number;
  readonly macroDepth: number;
}

type Kind<Name> = Extract<Expr["exprKind"], { readonly case: Name }>["value" &
  keyof Expr["exprKind"]];
type Struct = Kind<"structExpr">;
type Comprehension = Kind<"comprehensionExpr">;

function textOf({ exprKind }: Expr): string | undefined {
  if (exprKind.case !== "constExpr") return undefined;
  const { constantKind } = exprKind.value;
  return constantKind.case === "stringValue" ? constantKind.value : undefined;
}
