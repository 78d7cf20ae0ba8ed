/** Counts requests and measures their durations. */
import { CounterFamily, HistogramFamily } from "@sandkasten/telemetry";
import type { MetricFamily } from "@sandkasten/telemetry";

const BUCKETS_SECONDS = [0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10, 60];

export interface FinishedRequest {
  readonly method: string;
  /** The pattern, never the path: labels must have few values, and no secret ones. */
  readonly route: string;
  readonly status: number;
  readonly durationMs: number;
  /** Streams last as long as their client reads, so their duration means nothing. */
  readonly stream: boolean;
}

export class RequestMetrics {
  readonly #requests = new CounterFamily(
    "sandkasten_http_requests_total",
    "Requests by route and status",
  );
  readonly #durations = new HistogramFamily(
    "sandkasten_http_request_duration_seconds",
    "Response time, excluding streams",
    BUCKETS_SECONDS,
  );

  count({ method, route, status, durationMs, stream }: FinishedRequest): void {
    this.#requests.add({ method, route, status: String(status) });
    if (!stream) this.#durations.observe({ method, route }, durationMs / 1000);
  }

  families(): readonly MetricFamily[] {
    return [this.#requests, this.#durations];
  }
}
