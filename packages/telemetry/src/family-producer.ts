/** Passes the metrics of this process to OpenTelemetry, instead of counting twice. */
import { ValueType } from "@opentelemetry/api";
import type { HrTime } from "@opentelemetry/api";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { AggregationTemporality, DataPointType } from "@opentelemetry/sdk-metrics";
import type {
  CollectionResult,
  DataPoint,
  Histogram,
  MetricData,
  MetricProducer,
} from "@opentelemetry/sdk-metrics";
import type { MetricFamily, MetricSample } from "./metric-families.ts";

type Counted = Extract<MetricSample, { readonly counts: readonly number[] }>;

export class FamilyProducer implements MetricProducer {
  readonly #scope: string;
  readonly #families: () => Promise<readonly MetricFamily[]>;
  readonly #startTime = now();

  constructor(scope: string, families: () => Promise<readonly MetricFamily[]>) {
    this.#scope = scope;
    this.#families = families;
  }

  async collect(): Promise<CollectionResult> {
    const times = { startTime: this.#startTime, endTime: now() };
    const metrics = (await this.#families()).map((family) => dataOf(family, times));
    return {
      // The reader replaces this resource with its own.
      resourceMetrics: {
        resource: resourceFromAttributes({}),
        scopeMetrics: [{ scope: { name: this.#scope }, metrics }],
      },
      errors: [],
    };
  }
}

interface Times {
  readonly startTime: HrTime;
  readonly endTime: HrTime;
}

function dataOf(family: MetricFamily, times: Times): MetricData {
  const { name, help, type, bounds = [], samples } = family;
  const common = {
    descriptor: { name, description: help, unit: unitOf(name), valueType: ValueType.DOUBLE },
    aggregationTemporality: AggregationTemporality.CUMULATIVE,
  };
  if (type === "histogram") {
    const dataPoints = samples
      .filter((sample): sample is Counted => "counts" in sample)
      .map(({ labels, counts, sum }): DataPoint<Histogram> => {
        const count = counts.reduce((total, one) => total + one, 0);
        const buckets = { boundaries: [...bounds], counts: [...counts] };
        return { ...times, attributes: labels, value: { buckets, sum, count } };
      });
    return { ...common, dataPointType: DataPointType.HISTOGRAM, dataPoints };
  }
  const dataPoints = samples.flatMap((sample) =>
    "value" in sample ? [{ ...times, attributes: sample.labels, value: sample.value }] : [],
  );
  return type === "gauge"
    ? { ...common, dataPointType: DataPointType.GAUGE, dataPoints }
    : { ...common, dataPointType: DataPointType.SUM, isMonotonic: true, dataPoints };
}

function unitOf(name: string): string {
  if (name.endsWith("_ms")) return "ms";
  if (name.endsWith("_seconds")) return "s";
  return name.includes("_bytes") ? "By" : "1";
}

function now(): HrTime {
  const ms = Date.now();
  return [Math.trunc(ms / 1000), (ms % 1000) * 1_000_000];
}
