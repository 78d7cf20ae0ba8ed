/** Measures contestants in turns, so that a busy moment of the machine hits all of them alike. */
import type { Series } from "./series.ts";

/** Takes samples, in microseconds, or sits out the round. */
export type Contestant = () => Promise<number | readonly number[] | undefined>;

export interface InterleaveOptions {
  readonly scenario: string;
  readonly rounds: number;
  /** Rounds that are run first and not counted: caches, compilers and templates get warm. */
  readonly warmUpRounds: number;
  readonly signal: AbortSignal;
  readonly onRound?: (round: number, rounds: number) => void;
}

export async function interleave(
  contestants: Readonly<Record<string, Contestant>>,
  options: InterleaveOptions,
): Promise<Series[]> {
  const { scenario, rounds, warmUpRounds, signal, onRound } = options;
  const samples = new Map<string, number[]>(Object.keys(contestants).map((name) => [name, []]));
  for (let round = -warmUpRounds; round < rounds; round++) {
    if (round >= 0) onRound?.(round, rounds);
    for (const [name, measure] of Object.entries(contestants)) {
      signal.throwIfAborted();
      const taken = await measure();
      if (round >= 0 && taken !== undefined) samples.get(name)?.push(...[taken].flat());
    }
  }
  return [...samples].map(([name, taken]) => ({ scenario, name, unit: "us", samples: taken }));
}

/** How long something takes, in microseconds. */
export async function timeUs(act: () => Promise<unknown>): Promise<number> {
  const startedMs = performance.now();
  await act();
  return (performance.now() - startedMs) * 1000;
}

/**
 * So many samples in a row, each as that of work which goes on. What takes part once a round mostly
 * finds the processor's caches full of the others.
 */
export function inARow(times: number, measureUs: () => Promise<number>): Contestant {
  return async () => {
    const taken: number[] = [];
    for (let time = 0; time < times; time++) taken.push(await measureUs());
    return taken;
  };
}

/** A slow contestant that takes part in every so many rounds only. */
export function everyRounds(rounds: number, measure: Contestant): Contestant {
  let round = 0;
  return () => (round++ % rounds === 0 ? measure() : Promise.resolve(undefined));
}
