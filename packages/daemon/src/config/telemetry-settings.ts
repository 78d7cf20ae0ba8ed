/** Where traces and metrics go: the daemon's own keys, and the standard `OTEL_*` variables below them. */
import { telemetryFromEnvironment } from "@sandkasten/telemetry";
import type { Config } from "./config.ts";
import { parseListenAddress } from "./listen-address.ts";
import type { ConfigValues } from "./schema.ts";
import type { Environment } from "./text-settings.ts";

const SERVICE_NAME = "sandkasten-daemon";

/**
 * Variables that other programs need otherwise, such as a protocol that is not spoken here, turn
 * telemetry off with a warning; they are no reason not to start.
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
    return { telemetry: own, warnings: [`no traces and metrics are sent: ${reason}`] };
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
