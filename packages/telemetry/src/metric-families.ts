/** Counts and durations of this process, kept as plain numbers until they are collected. */

export type Label = Readonly<Record<string, string>>;

export type MetricSample =
  | { readonly labels: Label; readonly value: number }
  | {
      readonly labels: Label;
      /** The number of values in each bucket; one more than bounds, the last for larger values. */
      readonly counts: readonly number[];
      readonly sum: number;
    };

/** All samples of one name. */
export interface MetricFamily {
  readonly name: string;
  readonly help: string;
  readonly type: "counter" | "gauge" | "histogram";
  /** Upper bounds of buckets, for histograms. */
  readonly bounds?: readonly number[];
  readonly samples: readonly MetricSample[];
}

/** A monotonic counter for each set of labels. */
export class CounterFamily implements MetricFamily {
  readonly type = "counter";
  readonly name: string;
  readonly help: string;
  readonly #values = new Map<string, { readonly labels: Label; value: number }>();

  constructor(name: string, help: string) {
    this.name = name;
    this.help = help;
  }

  add(labels: Label, amount = 1): void {
    const key = keyOf(labels);
    const sample = this.#values.get(key);
    if (sample === undefined) this.#values.set(key, { labels, value: amount });
    else sample.value += amount;
  }

  get samples(): readonly MetricSample[] {
    return [...this.#values.values()].map(({ labels, value }) => ({ labels, value }));
  }
}

interface Buckets {
  readonly labels: Label;
  readonly counts: number[];
  sum: number;
}

/** A histogram for each set of labels. */
export class HistogramFamily implements MetricFamily {
  readonly type = "histogram";
  readonly name: string;
  readonly help: string;
  readonly bounds: readonly number[];
  readonly #values = new Map<string, Buckets>();

  constructor(name: string, help: string, bounds: readonly number[]) {
    this.name = name;
    this.help = help;
    this.bounds = bounds;
  }

  observe(labels: Label, value: number): void {
    const key = keyOf(labels);
    let buckets = this.#values.get(key);
    if (buckets === undefined) {
      buckets = { labels, counts: Array.from({ length: this.bounds.length + 1 }, () => 0), sum: 0 };
      this.#values.set(key, buckets);
    }
    const index = this.bounds.findIndex((bound) => value <= bound);
    const bucket = index === -1 ? this.bounds.length : index;
    buckets.counts[bucket] = (buckets.counts[bucket] ?? 0) + 1;
    buckets.sum += value;
  }

  get samples(): readonly MetricSample[] {
    return [...this.#values.values()].map(({ labels, counts, sum }) => ({
      labels,
      counts: [...counts],
      sum,
    }));
  }
}

function keyOf(labels: Label): string {
  let key = "";
  for (const name in labels) key += `${labels[name] ?? ""}\n`;
  return key;
}
