import { prometheusText } from "@sandkasten/telemetry";
import { expect, it } from "vitest";
import { RequestMetrics } from "./request-metrics.ts";

it("counts every request, and measures those that are not streams", () => {
  const metrics = new RequestMetrics();
  const request = { method: "GET", route: "/v1/events", status: 200, durationMs: 3000 };
  metrics.count({ ...request, stream: true });
  metrics.count({ ...request, route: "/v1/sessions", stream: false });
  const lines = prometheusText(metrics.families()).split("\n");
  const named = (name: string): string[] => lines.filter((line) => line.startsWith(name));
  expect(named("sandkasten_http_requests_total{")).toHaveLength(2);
  expect(named("sandkasten_http_request_duration_seconds_sum")).toEqual([
    'sandkasten_http_request_duration_seconds_sum{method="GET",route="/v1/sessions"} 3',
  ]);
});
