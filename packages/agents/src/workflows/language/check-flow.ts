/** Checks that every step leads to a step of the same block, and that every step is reachable. */
import { didYouMean } from "../../suggested-name.ts";
import type { Block, Step } from "./plan.ts";
import { allSteps, exitsOf, innerBlocks } from "./plan.ts";
import type { Problems } from "./problem.ts";

export function checkFlow(root: Block, problems: Problems): void {
  const everywhere = new Set(allSteps(root).map(({ id }) => id));
  checkBlock(root, everywhere, problems);
}

function checkBlock(block: Block, everywhere: ReadonlySet<string>, problems: Problems): void {
  const byId = new Map(block.steps.map((step) => [step.id, step]));
  for (const step of block.steps) {
    for (const { to } of exitsOf(step))
      if (to !== undefined && !byId.has(to))
        problems.add(step.place, `step ${step.id}: ${unknownNext(to, byId, everywhere)}`);
    for (const inner of innerBlocks(step)) checkBlock(inner.block, everywhere, problems);
  }
  const reached = reachedFrom(block.start, byId);
  for (const { id, place } of block.steps)
    if (!reached.has(id))
      problems.add(place, `step ${id} is never reached: no step before it leads to it`);
}

function unknownNext(
  to: string,
  byId: ReadonlyMap<string, Step>,
  everywhere: ReadonlySet<string>,
): string {
  if (everywhere.has(to))
    return `it cannot lead to ${to}, which is in another list of steps; a branch ends at its own end`;
  return `there is no step ${to} to go to${didYouMean(to, byId.keys())}`;
}

function reachedFrom(start: string, byId: ReadonlyMap<string, Step>): ReadonlySet<string> {
  const reached = new Set<string>();
  const waiting = [start];
  for (let id = waiting.pop(); id !== undefined; id = waiting.pop()) {
    const step = byId.get(id);
    if (step === undefined || reached.has(id)) continue;
    reached.add(id);
    for (const { to } of exitsOf(step)) if (to !== undefined) waiting.push(to);
  }
  return reached;
}
