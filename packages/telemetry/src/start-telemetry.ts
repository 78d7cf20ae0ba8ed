/** Starts sending spans and metrics. OpenTelemetry's SDK is only loaded here. */
import type { TelemetrySettings } from "./settings-from-environment.ts";
import type { StartedTelemetry, StartOptions } from "./started-telemetry.ts";

export async function startTelemetry(
  settings: TelemetrySettings,
  options: StartOptions,
): Promise<StartedTelemetry> {
  const { OtlpTelemetry } = await import("./otlp-telemetry.ts");
  return new OtlpTelemetry(settings, options);
}
