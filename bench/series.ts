/** A scenario's result: named series of samples, all of them costs (less is better). */

export type Unit = "us" | "bytes";

export interface Series {
  readonly scenario: string;
  /** What was measured: `crun`, `docker run`, … */
  readonly name: string;
  readonly unit: Unit;
  readonly samples: readonly number[];
  /** The bytes per sample, for series that are also a throughput. */
  readonly bytesMoved?: number;
}

/** How budgets and reports name a series. */
export function seriesKey({ scenario, name }: Pick<Series, "scenario" | "name">): string {
  return `${scenario}/${name}`;
}
