/** Counts runs and tool calls of the agent service, and measures their durations. */
import { CounterFamily, HistogramFamily } from "@sandkasten/telemetry";
import type { MetricFamily } from "@sandkasten/telemetry";
import type { EndedCall } from "@sandkasten/tools";

const CALL_BOUNDS_MS = [5, 25, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000, 60_000, 300_000];
const RUN_BOUNDS_MS = [1000, 5000, 10_000, 30_000, 60_000, 300_000, 900_000, 3_600_000];

export class AgentMetrics {
  readonly #runs = new CounterFamily(
    "sandkasten_agent_runs_total",
    "Agent runs that ended, by how",
  );
  readonly #runDurations = new HistogramFamily(
    "sandkasten_agent_run_duration_ms",
    "How long agent runs took",
    RUN_BOUNDS_MS,
  );
  readonly #calls = new CounterFamily(
    "sandkasten_tool_calls_total",
    "Calls of sandbox tools, and whether neither they nor their command failed",
  );
  readonly #callDurations = new HistogramFamily(
    "sandkasten_tool_call_duration_ms",
    "How long calls of sandbox tools took",
    CALL_BOUNDS_MS,
  );

  runEnded(status: string, durationMs: number): void {
    this.#runs.add({ status });
    this.#runDurations.observe({}, durationMs);
  }

  callEnded({ tool, ok, durationMs }: EndedCall): void {
    this.#calls.add({ tool, ok: String(ok) });
    this.#callDurations.observe({ tool }, durationMs);
  }

  families(): readonly MetricFamily[] {
    return [this.#runs, this.#runDurations, this.#calls, this.#callDurations];
  }
}
