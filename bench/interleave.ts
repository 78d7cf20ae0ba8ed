/** Measures contestants in turns, so a busy moment of the machine affects all of them equally. */
import type { Series } from "./series.ts";

/** Takes samples, in microseconds, or skips the round. */
export type Contestant = () => Promise<number | readonly number[] | undefined>;

export interface InterleaveOptions {
  readonly scenario: string;
  readonly rounds: number;
  /** Rounds that run first and are not counted, to warm up caches, compilers and templates. */
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

/** The duration of an action, in microseconds. */
export async function timeUs(act: () => Promise<unknown>): Promise<number> {
  const startedMs = performance.now();
  await act();
  return (performance.now() - startedMs) * 1000;
}

/**
 * Takes several samples in a row, as in continuous work. A contestant that runs only once a round
 * mostly finds the processor's caches full of the others' data.
 */
export function inARow(times: number, measureUs: () => Promise<number>): Contestant {
  return async () => {
    const taken: number[] = [];
    for (let time = 0; time < times; time++) taken.push(await measureUs());
    return taken;
  };
}

/** A slow contestant that only takes part in some rounds. */
export function everyRounds(rounds: number, measure: Contestant): Contestant {
  let round = 0;
  return () => (round++ % rounds === 0 ? measure() : Promise.resolve(undefined));
}
