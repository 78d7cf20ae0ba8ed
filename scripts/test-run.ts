/** What determines the extent of a test run and its random choices. */
import { randomInt } from "node:crypto";
import type { Reporter } from "vitest/node";

/**
 * The variable with the seed of the run's random choices; without it, each run draws its own. Not
 * `SANDKASTEN_…`: daemons started by tests inherit it and refuse unknown settings.
 */
export const seedVariable = "TEST_SEED";

/** If set to `1`, vitest runs the torture suites instead of the usual tests. */
export const tortureVariable = "TEST_TORTURE";

const seedLimit = 2 ** 31;

/** @throws Error if the text is not a whole number from 1 to 2³¹ - 1. */
export function parseSeed(text: string | undefined): number {
  if (text === undefined || text === "") return randomInt(1, seedLimit);
  const seed = Number(text);
  if (!/^\d+$/u.test(text) || seed < 1 || seed >= seedLimit)
    throw new Error(`Invalid seed "${text}": use a whole number from 1 to ${seedLimit - 1}.`);
  return seed;
}

/** How to repeat a run. */
export function seedLine(seed: number): string {
  return `seed ${seed} (repeat this run with --seed ${seed} or ${seedVariable}=${seed})`;
}

/** Makes vitest print the seed before anything else. */
export class SeedReporter implements Reporter {
  readonly #seed: number;

  constructor(seed: number) {
    this.#seed = seed;
  }

  onInit(): void {
    console.log(seedLine(this.#seed));
  }
}
