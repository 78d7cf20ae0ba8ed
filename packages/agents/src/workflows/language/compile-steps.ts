/** Compiles lists of steps: their ids, their order and their kinds. */
import { compileStep } from "./compile-step.ts";
import type { BlockStart, CompileContext, Surroundings } from "./compile-context.ts";
import { readKeys, show } from "./keys.ts";
import type { Located, LocatedMap } from "./located-yaml.ts";
import { plainValue } from "./located-yaml.ts";
import { didYouMean } from "../../suggested-name.ts";
import type { Block, Step } from "./plan.ts";
import type { StepType } from "./step-keys.ts";
import { STEP_KEYS, TYPE_ALIASES } from "./step-keys.ts";
import { BLOCK_KEYS, WORKFLOW_KEYS } from "./workflow-keys.ts";

/** A parsed list, before its steps are compiled. */
interface StepHeader {
  readonly id: string;
  readonly type: StepType;
  readonly map: LocatedMap;
}

/**
 * The steps are a list, or a mapping with `steps` and `start`. `start` may also be next to them.
 * Undefined if something is wrong, which the context has then recorded.
 */
export function compileSteps(
  located: Located | undefined,
  beside: BlockStart,
  context: CompileContext,
  surroundings: Surroundings,
): Block | undefined {
  if (located?.kind === "map") {
    const inner = readKeys(located, BLOCK_KEYS, "steps", context.problems);
    return compileSteps(inner.located.steps, inner, context, surroundings);
  }
  if (located?.kind !== "list") return undefined;
  const headers = located.items.map((item, index) =>
    readHeader(item, index, context, surroundings),
  );
  const steps: Step[] = [];
  for (const [index, header] of headers.entries()) {
    if (header === undefined) continue;
    const following = headers[index + 1]?.id;
    const step = compileStep(header, following, context, surroundings);
    if (step !== undefined) steps.push(step);
  }
  if (steps.length < headers.length) return undefined;
  const [first] = steps;
  const start = beside.values.start;
  if (start !== undefined && beside.located.start !== undefined) {
    if (steps.some(({ id }) => id === start)) return { start, steps };
    context.problems.add(
      beside.located.start.place,
      `start: there is no step ${start} in this list${didYouMean(
        start,
        steps.map(({ id }) => id),
      )}`,
    );
    return undefined;
  }
  return first === undefined ? undefined : { start: first.id, steps };
}

function readHeader(
  item: Located,
  index: number,
  context: CompileContext,
  { path }: Surroundings,
): StepHeader | undefined {
  const { problems } = context;
  if (item.kind !== "map") {
    problems.add(
      item.place,
      `step ${index + 1} is ${show(plainValue(item))}; it must be a mapping`,
    );
    return undefined;
  }
  const written = (name: string): Located | undefined =>
    item.entries.find((entry) => entry.name === name)?.value;
  // The `states` spelling gives steps only a name.
  const named = written("id") ?? written("name");
  const id = named?.kind === "scalar" ? named.value : undefined;
  if (typeof id !== "string" || !WORKFLOW_KEYS.id.safeParse(id).success) {
    problems.add(
      (named ?? item).place,
      named === undefined
        ? `step ${index + 1}: id is missing`
        : `step ${index + 1}: id is ${show(plainValue(named))}; it must be 1 to 64 letters, digits, dashes and underscores`,
    );
    return undefined;
  }
  const earlier = context.ids.get(id);
  if (earlier !== undefined) {
    problems.add(
      (named ?? item).place,
      `step ${id}: the id is taken by the step in line ${earlier.place.line}; ids are unique in a file`,
    );
    return undefined;
  }
  context.ids.set(id, { place: item.place, path });
  const type = typeOf(id, item, written("type"), context);
  return type === undefined ? undefined : { id, type, map: item };
}

function typeOf(
  id: string,
  map: LocatedMap,
  located: Located | undefined,
  { problems }: CompileContext,
): StepType | undefined {
  const kinds = [...Object.keys(STEP_KEYS), ...Object.keys(TYPE_ALIASES)];
  if (located === undefined) {
    if (map.entries.some(({ name }) => name === "agent")) return "agent";
    problems.add(map.place, `step ${id}: type is missing; it must be one of ${kinds.join(", ")}`);
    return undefined;
  }
  const type = plainValue(located);
  if (typeof type === "string") {
    if (Object.hasOwn(STEP_KEYS, type)) return type as StepType;
    if (Object.hasOwn(TYPE_ALIASES, type)) return TYPE_ALIASES[type];
    problems.add(
      located.place,
      `step ${id}: there is no type ${show(type)}${didYouMean(type, kinds)}`,
    );
    return undefined;
  }
  problems.add(located.place, `step ${id}: type is ${show(type)}; it must be text`);
  return undefined;
}
