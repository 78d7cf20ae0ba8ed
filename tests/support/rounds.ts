/**
 * How much a long test does: a part chosen by the run's seed in `npm test`, everything in `npm run
 * torture`.
 */
import { inject } from "vitest";
import { pick, randomFor } from "./seeded.ts";

declare module "vitest" {
  interface ProvidedContext {
    seed: number;
    isTorture: boolean;
  }
}

export interface Rounds {
  /** In `npm test`. */
  readonly slice: number;
  /** In `npm run torture`. */
  readonly torture: number;
}

export function rounds({ slice, torture }: Rounds): number {
  return inject("isTorture") ? torture : slice;
}

/** All cases in the torture run, otherwise `slice` of them, chosen by the run's seed. */
export function sliceOf<T>(name: string, all: readonly T[], slice: number): readonly T[] {
  return inject("isTorture") ? all : pick(all, slice, runRandom(name));
}

/** Numbers from 0 to 1 that the run's seed repeats, independent of other tests. */
export function runRandom(name: string): () => number {
  return randomFor(inject("seed"), name);
}
