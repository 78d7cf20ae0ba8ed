/** The budgets that are measured here, and how a measurement is judged by them. */
import { MIB } from "./bench-machine.ts";
import { seriesKey } from "./series.ts";
import type { Series } from "./series.ts";
import { percentile, ratio } from "./statistics.ts";

/** Every budget is a ratio: of another series of the same run, or of a fixed number of bytes. */
export interface Budget {
  readonly what: string;
  /** `scenario/name` of the series that is judged. */
  readonly subject: string;
  readonly share: number;
  readonly against: { readonly series: string } | { readonly bytes: number };
  readonly atMost: number;
  /** Where the budget is meant, when that is not where it is measured here. */
  readonly note?: string;
}

const MEDIAN = 0.5;
const overHttp = "meant over HTTP; here over the channel, which must leave room for it";

export const BUDGETS: readonly Budget[] = [
  {
    what: "cold create with crun, to the first ping ≤ 1/7 of docker run",
    subject: "cold create/crun, ping",
    share: MEDIAN,
    against: { series: "cold create/docker run" },
    atMost: 1 / 7,
  },
  {
    what: "exec true in the shell ≤ 1/50 of docker exec",
    subject: "exec true/shell, true",
    share: MEDIAN,
    against: { series: "exec true/docker exec" },
    atMost: 1 / 50,
    note: overHttp,
  },
  {
    what: "exec true in the shell ≤ 3 × a bare fork+exec+wait",
    subject: "exec true/shell, true",
    share: MEDIAN,
    against: { series: "exec true/fork+exec+wait" },
    atMost: 3,
    note: overHttp,
  },
  {
    what: "1 KB file write + read ≤ 2 × exec true",
    subject: "1 KB file/write + read",
    share: MEDIAN,
    against: { series: "1 KB file/shell, true" },
    atMost: 2,
    note: overHttp,
  },
  {
    what: "100 MB file up ≤ 2 × the time of a plain socket",
    subject: "100 MB file/file, up",
    share: MEDIAN,
    against: { series: "100 MB file/socket, up" },
    atMost: 2,
    note: overHttp,
  },
  {
    what: "100 MB file down ≤ 2 × the time of a plain socket",
    subject: "100 MB file/file, down",
    share: MEDIAN,
    against: { series: "100 MB file/socket, down" },
    atMost: 2,
    note: overHttp,
  },
  {
    what: "1 GB of stdout grows RSS by < 32 MB",
    subject: "1 GB stdout/growth of RSS",
    share: 1,
    against: { bytes: 32 * MIB },
    atMost: 1,
  },
  {
    what: "an idle sandbox takes ≤ 4 MB in all",
    subject: "idle sandbox/in all",
    share: MEDIAN,
    against: { bytes: 4 * MIB },
    atMost: 1,
  },
];

export type Verdict = { readonly budget: Budget } & (
  | { readonly kept: boolean; readonly ratio: number }
  | { readonly kept: undefined; readonly missing: string }
);

/** Judges what was measured; a budget without its series is said to be missing, never kept. */
export function judge(budgets: readonly Budget[], measured: readonly Series[]): Verdict[] {
  const byKey = new Map(
    measured.filter(({ samples }) => samples.length > 0).map((one) => [seriesKey(one), one]),
  );
  return budgets.map((budget) => {
    const { against, subject, share, atMost } = budget;
    const needed = "series" in against ? [subject, against.series] : [subject];
    const missing = needed.find((key) => !byKey.has(key));
    if (missing !== undefined) return { budget, kept: undefined, missing };
    const value = (key: string): number => percentile(byKey.get(key)?.samples ?? [], share);
    const baseline = "series" in against ? value(against.series) : against.bytes;
    const actual = ratio(value(subject), baseline);
    return { budget, kept: actual <= atMost, ratio: actual };
  });
}
