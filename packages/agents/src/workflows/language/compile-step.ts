/** Compiles one step of each kind. */
import type { Template } from "../expressions/template.ts";
import type { BlockStart, CompileContext, Container, Surroundings } from "./compile-context.ts";
import { ExpressionCompiler } from "./compile-context.ts";
import { compileTransitions } from "./compile-transitions.ts";
import { readKeys } from "./keys.ts";
import type { Fields } from "./keys.ts";
import type { Located, LocatedMap } from "./located-yaml.ts";
import type { Block, Branch, Retry, Step } from "./plan.ts";
import type { StepType } from "./step-keys.ts";
import { BRANCH_KEYS, RETRY_KEYS, STEP_KEYS } from "./step-keys.ts";

const DEFAULT_MAX_VISITS = 100;
const DEFAULT_BRANCHES_AT_ONCE = 4;
const DEFAULT_MAX_ITEMS = 1000;

interface Header {
  readonly id: string;
  readonly type: StepType;
  readonly map: LocatedMap;
}

/** `following` is the id of the next step in the list. Undefined if something is wrong. */
export function compileStep(
  header: Header,
  following: string | undefined,
  context: CompileContext,
  surroundings: Surroundings,
): Step | undefined {
  const before = context.problems.found.length;
  const step = new StepCompiler(header, following, context, surroundings).compile(header.type);
  return context.problems.found.length > before ? undefined : step;
}

class StepCompiler {
  readonly #header: Header;
  readonly #following: string | undefined;
  readonly #context: CompileContext;
  readonly #surroundings: Surroundings;
  readonly #expressions: ExpressionCompiler;

  constructor(
    header: Header,
    following: string | undefined,
    context: CompileContext,
    surroundings: Surroundings,
  ) {
    this.#header = header;
    this.#following = following;
    this.#context = context;
    this.#surroundings = surroundings;
    this.#expressions = new ExpressionCompiler(header.id, context, surroundings);
  }

  compile(type: StepType): Step | undefined {
    switch (type) {
      case "agent":
        return this.#agent();
      case "switch":
        return this.#switch();
      case "parallel":
        return this.#parallel();
      case "foreach":
        return this.#foreach();
      case "transform":
        return this.#transform();
      case "approval":
        return this.#approval();
      case "try":
        return this.#try();
      case "timer":
        return this.#timer();
      case "end":
        return this.#end();
    }
  }

  #agent(): Step {
    const { values, located, names } = this.#read(STEP_KEYS.agent);
    return {
      type: "agent",
      ...this.#base(values),
      ...this.#timed(values, names),
      agent: values.agent ?? "",
      task: this.#expressions.template(located.task),
      input: this.#expressions.template(located.input),
      retry: this.#retry(located.retry),
      safe: values.safe ?? false,
    };
  }

  #switch(): Step {
    const { values, located } = this.#read(STEP_KEYS.switch);
    const expression = this.#expressions.expression(located.expression);
    const where = `step ${this.#header.id}`;
    const isCompared = located.expression !== undefined;
    const conditions = isCompared ? this.#expressions.with("value") : this.#expressions;
    const transitions = compileTransitions(
      located.transitions,
      { where, isCompared, conditions },
      this.#context.problems,
    );
    return {
      type: "switch",
      ...this.#base(values),
      expression,
      transitions,
      otherwise: values.default,
    };
  }

  #parallel(): Step | undefined {
    const { values, located, names } = this.#read(STEP_KEYS.parallel);
    const branches: Branch[] = [];
    for (const item of located.branches?.kind === "list" ? located.branches.items : []) {
      const branch = this.#branch(item, branches);
      if (branch !== undefined) branches.push(branch);
    }
    return {
      type: "parallel",
      ...this.#base(values),
      ...this.#timed(values, names),
      branches,
      maxConcurrency: values.max_concurrency ?? DEFAULT_BRANCHES_AT_ONCE,
    };
  }

  #branch(item: Located, earlier: readonly Branch[]): Branch | undefined {
    const { problems } = this.#context;
    const where = `step ${this.#header.id}`;
    if (item.kind !== "map") {
      problems.add(item.place, `${where}: a branch must be a mapping with name and steps`);
      return undefined;
    }
    const fields = readKeys(item, BRANCH_KEYS, `${where}: branch`, problems);
    const { name } = fields.values;
    if (name === undefined) return undefined;
    if (earlier.some((branch) => branch.name === name))
      problems.add(item.place, `${where}: there are two branches with the name ${name}`);
    const block = this.#block(fields.located.steps, fields, { kind: "branch", name });
    return block && { name, block };
  }

  #foreach(): Step | undefined {
    const fields = this.#read(STEP_KEYS.foreach);
    const { values, located, names } = fields;
    const items = this.#expressions.expression(located.items);
    const itemName = values.item ?? "item";
    if (["input", "steps", "run", "index", "error", "value"].includes(itemName) && located.item)
      this.#context.problems.add(
        located.item.place,
        `step ${this.#header.id}: item cannot be ${itemName}, which is another variable already`,
      );
    const variables = [itemName, "index"];
    const block = this.#block(located.steps, fields, { kind: "foreach", name: "each" }, variables);
    if (items === undefined || block === undefined) return undefined;
    return {
      type: "foreach",
      ...this.#base(values),
      ...this.#timed(values, names),
      items,
      itemName,
      block,
      maxConcurrency: values.max_concurrency ?? 1,
      maxItems: values.max_items ?? DEFAULT_MAX_ITEMS,
    };
  }

  #transform(): Step | undefined {
    const { place, values, located, names } = this.#read(STEP_KEYS.transform);
    if ((located.expression === undefined) === (located.values === undefined))
      this.#context.problems.add(
        place,
        `step ${this.#header.id}: it must have either expression or values`,
      );
    const expression = this.#expressions.expression(located.expression);
    const output: Template | undefined =
      expression === undefined
        ? this.#expressions.template(located.values)
        : { kind: "value", expression };
    return (
      output && { type: "transform", ...this.#base(values), ...this.#next(values, names), output }
    );
  }

  #approval(): Step {
    const { values, located, names } = this.#read(STEP_KEYS.approval);
    const asked = values.name ?? `Approve ${this.#header.id}?`;
    return {
      type: "approval",
      ...this.#base(values),
      ...this.#timed(values, names),
      message: this.#expressions.template(located.message) ?? { kind: "constant", value: asked },
      onReject: values.on_reject,
    };
  }

  #try(): Step | undefined {
    const { values, located, names } = this.#read(STEP_KEYS.try);
    const nothing = { values: {}, located: {} };
    const attempt = this.#block(located.try, nothing, { kind: "try", name: "try" });
    const rescued: Omit<Container, "owner"> = { kind: "catch", name: "catch" };
    const rescue = this.#block(located.catch, nothing, rescued, ["error"]);
    if (attempt === undefined || rescue === undefined) return undefined;
    return { type: "try", ...this.#base(values), ...this.#timed(values, names), attempt, rescue };
  }

  #timer(): Step | undefined {
    const { place, values, located, names } = this.#read(STEP_KEYS.timer);
    if ((located.seconds === undefined) === (located.until === undefined))
      this.#context.problems.add(
        place,
        `step ${this.#header.id}: it must have either seconds or until`,
      );
    const until = this.#expressions.expression(located.until);
    const wait = until === undefined ? { ms: values.seconds ?? 0 } : { until };
    return { type: "timer", ...this.#base(values), ...this.#next(values, names), wait };
  }

  #end(): Step {
    const { values, located } = this.#read(STEP_KEYS.end);
    if (values.status !== "failed" && located.message !== undefined)
      this.#context.problems.add(
        located.message.place,
        `step ${this.#header.id}: message is for status: failed; use output`,
      );
    const message = this.#expressions.template(located.message);
    const failed = message ?? {
      kind: "constant",
      value: `The workflow ended at ${this.#header.id}.`,
    };
    return {
      type: "end",
      ...this.#base(values),
      output: this.#expressions.template(located.output),
      failure: values.status === "failed" ? failed : undefined,
    };
  }

  #read<Shape extends (typeof STEP_KEYS)[StepType]>(shape: Shape): Fields<Shape> {
    return readKeys(this.#header.map, shape, `step ${this.#header.id}`, this.#context.problems);
  }

  #base(values: {
    readonly name?: string | undefined;
    readonly description?: string | undefined;
    readonly max_visits?: number | undefined;
  }) {
    return {
      id: this.#header.id,
      name: values.name,
      description: values.description,
      place: this.#header.map.place,
      maxVisits: values.max_visits ?? DEFAULT_MAX_VISITS,
    };
  }

  #next(
    values: { readonly next?: string | undefined; readonly end?: boolean | undefined },
    names: { readonly end?: { readonly line: number; readonly column: number } },
  ): { readonly next: string | undefined } {
    if (values.end === true && values.next !== undefined && names.end !== undefined)
      this.#context.problems.add(
        names.end,
        `step ${this.#header.id}: it has both next and end; keep one of them`,
      );
    return { next: values.end === true ? undefined : (values.next ?? this.#following) };
  }

  #timed(
    values: {
      readonly next?: string | undefined;
      readonly end?: boolean | undefined;
      readonly timeout_seconds?: number | undefined;
    },
    names: { readonly end?: { readonly line: number; readonly column: number } },
  ) {
    return { ...this.#next(values, names), timeoutMs: values.timeout_seconds };
  }

  #retry(located: Located | undefined): Retry {
    const where = `step ${this.#header.id}: retry`;
    const values =
      located?.kind === "map"
        ? readKeys(located, RETRY_KEYS, where, this.#context.problems).values
        : { max_attempts: 1 };
    const {
      max_attempts = 3,
      backoff_seconds = 1000,
      max_backoff_seconds = 60_000,
      jitter = 0.5,
    } = values as { readonly [Name in keyof typeof RETRY_KEYS]?: number };
    return {
      maxAttempts: max_attempts,
      backoffMs: backoff_seconds,
      maxBackoffMs: max_backoff_seconds,
      jitter: Number(jitter),
    };
  }

  #block(
    located: Located | undefined,
    beside: BlockStart,
    container: Omit<Container, "owner">,
    variables: readonly string[] = [],
  ): Block | undefined {
    return this.#context.compileBlock(located, beside, this.#context, {
      path: [...this.#surroundings.path, { ...container, owner: this.#header.id }],
      variables: [...this.#surroundings.variables, ...variables],
    });
  }
}
