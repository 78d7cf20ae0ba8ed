/** Where traces and metrics are sent: the daemon's keys, with the standard `OTEL_*` variables as fallback. */
import { telemetryFromEnvironment } from "@sandkasten/telemetry";
import type { Config } from "./config.ts";
import { parseListenAddress } from "./listen-address.ts";
import type { ConfigValues } from "./schema.ts";
import type { Environment } from "./text-settings.ts";

const SERVICE_NAME = "sandkasten-daemon";

/**
 * Variables set for other programs, such as an unsupported protocol, turn telemetry off with a
 * warning instead of preventing the start.
 */
export function telemetryOf(
  values: ConfigValues["telemetry"],
  env: Environment,
): { readonly telemetry: Config["telemetry"]; readonly warnings: readonly string[] } {
  const { metrics_listen: listen } = values;
  const metricsListen = listen === undefined ? undefined : parseListenAddress(listen);
  const own = metricsListen === undefined ? {} : { metricsListen };
  try {
    const variables = { ...env, ...asVariables(values) };
    const otlp = telemetryFromEnvironment(variables, { serviceName: SERVICE_NAME });
    return { telemetry: { ...own, ...(otlp !== undefined && { otlp }) }, warnings: [] };
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    return { telemetry: own, warnings: [`traces and metrics are not sent: ${reason}`] };
  }
}

function asVariables(values: ConfigValues["telemetry"]): Record<string, string> {
  const { endpoint, headers, protocol, service_name: name, sample_ratio: ratio } = values;
  return {
    ...(endpoint !== undefined && { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint }),
    ...(headers !== undefined && { OTEL_EXPORTER_OTLP_HEADERS: headers }),
    ...(protocol !== undefined && { OTEL_EXPORTER_OTLP_PROTOCOL: protocol }),
    ...(name !== undefined && { OTEL_SERVICE_NAME: name }),
    ...(ratio !== undefined && {
      OTEL_TRACES_SAMPLER: "parentbased_traceidratio",
      OTEL_TRACES_SAMPLER_ARG: String(ratio),
    }),
  };
}
