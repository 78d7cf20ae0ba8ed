import { expect, it } from "vitest";
import { CounterFamily, HistogramFamily } from "./metric-families.ts";
import { prometheusText } from "./prometheus-text.ts";

it("writes counters and histograms in Prometheus format", () => {
  const runs = new CounterFamily("runs_total", "Runs");
  runs.add({ runtime: "python", ok: "true" });
  runs.add({ runtime: "python", ok: "true" }, 2);
  runs.add({ runtime: 'a"b\\c\nd', ok: "false" });
  const durations = new HistogramFamily("run_ms", "Durations", [1, 10]);
  for (const value of [0.5, 1, 7, 70.25]) durations.observe({}, value);
  const gauge = { name: "now", help: "Now", type: "gauge" as const, samples: [] };
  expect(prometheusText([runs, durations, gauge])).toBe(
    [
      "# HELP runs_total Runs",
      "# TYPE runs_total counter",
      'runs_total{runtime="python",ok="true"} 3',
      'runs_total{runtime="a\\"b\\\\c\\nd",ok="false"} 1',
      "# HELP run_ms Durations",
      "# TYPE run_ms histogram",
      'run_ms_bucket{le="1"} 2',
      'run_ms_bucket{le="10"} 3',
      'run_ms_bucket{le="+Inf"} 4',
      "run_ms_sum 78.750000",
      "run_ms_count 4",
      "# HELP now Now",
      "# TYPE now gauge",
      "",
    ].join("\n"),
  );
});
