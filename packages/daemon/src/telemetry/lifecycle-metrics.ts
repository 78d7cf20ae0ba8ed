/** Counts commands and sessions and measures their durations, from the event feed. */
import { CounterFamily, HistogramFamily } from "@sandkasten/telemetry";
import type { MetricFamily } from "@sandkasten/telemetry";
import type { NewEvent } from "../ports/event-log.ts";

const RUN_BOUNDS_MS = [
  1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000, 60_000, 300_000,
  1_800_000,
];
const CREATE_BOUNDS_MS = [1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 10_000, 60_000];
const LIFETIME_BOUNDS_SECONDS = [1, 10, 60, 300, 1800, 3600, 14_400, 86_400];

export class LifecycleMetrics {
  readonly #runs = new CounterFamily(
    "station_sandbox_runs_total",
    "Commands that ended, by interpreter and by whether they exited with 0",
  );
  readonly #durations = new HistogramFamily(
    "station_sandbox_run_duration_ms",
    "Duration of commands, by interpreter",
    RUN_BOUNDS_MS,
  );
  readonly #created = new CounterFamily(
    "sandkasten_sessions_created_total",
    "Sessions created, by source (pool or cold)",
  );
  readonly #failed = new CounterFamily(
    "sandkasten_session_create_failures_total",
    "Sessions that could not be created, by error code",
  );
  readonly #createDurations = new HistogramFamily(
    "sandkasten_session_create_duration_ms",
    "Time to create a session, by source (pool or cold)",
    CREATE_BOUNDS_MS,
  );
  readonly #ended = new CounterFamily(
    "sandkasten_sessions_ended_total",
    "Sessions that ended, by final status",
  );
  readonly #lifetimes = new HistogramFamily(
    "sandkasten_session_lifetime_seconds",
    "Lifetime of sessions",
    LIFETIME_BOUNDS_SECONDS,
  );

  /** Counts the events that concern sessions and commands; ignores all others. */
  consume(events: readonly NewEvent[]): void {
    for (const event of events) this.#count(event);
  }

  #count(event: NewEvent): void {
    switch (event.type) {
      case "session.running": {
        const { acquire_source: source, duration_ms: durationMs } = event.data;
        this.#created.add({ source });
        if (durationMs !== undefined) this.#createDurations.observe({ source }, durationMs);
        break;
      }
      case "session.ended": {
        const { status, error_code: code = "INTERNAL_ERROR", lifetime_ms: lifetimeMs } = event.data;
        if (status === "failed") this.#failed.add({ code });
        this.#ended.add({ status });
        if (lifetimeMs !== undefined) this.#lifetimes.observe({}, lifetimeMs / 1000);
        break;
      }
      case "exec.ended": {
        const { runtime = "other", end_reason: reason, exit_code: exitCode } = event.data;
        this.#runs.add({ runtime, ok: String(reason === "exited" && exitCode === 0) });
        this.#durations.observe({ runtime }, event.data.duration_ms);
        break;
      }
      default:
    }
  }

  families(): readonly MetricFamily[] {
    return [
      this.#runs,
      this.#durations,
      this.#created,
      this.#failed,
      this.#createDurations,
      this.#ended,
      this.#lifetimes,
    ];
  }
}
