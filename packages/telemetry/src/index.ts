/** Traces and metrics of a process: the standard settings, OTLP, and Prometheus' text format. */
export {
  type MetricFamily,
  type MetricSample,
  CounterFamily,
  HistogramFamily,
} from "./metric-families.ts";
export { prometheusText } from "./prometheus-text.ts";
export {
  type TelemetrySettings,
  telemetryFromEnvironment,
  type Variables,
} from "./settings-from-environment.ts";
export { startTelemetry } from "./start-telemetry.ts";
export type { OpenSpan, StartedTelemetry, StartOptions } from "./started-telemetry.ts";
export { parseTraceContext, type TraceContext, idsOf } from "./trace-context.ts";
