/** Measures contestants in turns, so that a busy moment of the machine hits all of them alike. */
import type { Series } from "./series.ts";

/** Takes one sample, in microseconds, or sits out the round. */
export type Contestant = () => Promise<number | undefined>;

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
      const sample = await measure();
      if (round >= 0 && sample !== undefined) samples.get(name)?.push(sample);
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

/** A slow contestant that takes part in every so many rounds only. */
export function everyRounds(rounds: number, measure: Contestant): Contestant {
  let round = 0;
  return () => (round++ % rounds === 0 ? measure() : Promise.resolve(undefined));
}
