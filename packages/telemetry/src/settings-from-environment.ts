/** The supported standard `OTEL_*` variables. */

export type Variables = Readonly<Record<string, string | undefined>>;

/** Where a signal is sent. */
export interface OtlpTarget {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly protocol: "http/protobuf" | "http/json";
}

export interface TelemetrySettings {
  readonly serviceName: string;
  readonly resourceAttributes: Readonly<Record<string, string>>;
  /** Absent if spans are not sent. */
  readonly traces?: OtlpTarget;
  /** Absent if metrics are not sent. */
  readonly metrics?: OtlpTarget;
  /** The share of recorded traces among those that begin here; the caller decides for the others. */
  readonly sampleRatio: number;
  /** How long finished spans wait to be sent with others. */
  readonly batchDelayMs: number;
  readonly metricIntervalMs: number;
}

const DEFAULT_ENDPOINT = "http://localhost:4318";
const DEFAULT_BATCH_DELAY_MS = 5000;
const DEFAULT_METRIC_INTERVAL_MS = 60_000;

type Signal = "TRACES" | "METRICS";

/**
 * Undefined if telemetry is not requested: neither an endpoint nor an exporter is named. Throws an
 * Error that names the variable for an unusable value.
 */
export function telemetryFromEnvironment(
  env: Variables,
  defaults: { readonly serviceName: string },
): TelemetrySettings | undefined {
  if (env["OTEL_SDK_DISABLED"]?.toLowerCase() === "true") return undefined;
  const traces = targetOf(env, "TRACES");
  const metrics = targetOf(env, "METRICS");
  if (traces === undefined && metrics === undefined) return undefined;
  const resourceAttributes = pairsOf(env, "OTEL_RESOURCE_ATTRIBUTES");
  return {
    serviceName:
      given(env, "OTEL_SERVICE_NAME") ?? resourceAttributes["service.name"] ?? defaults.serviceName,
    resourceAttributes,
    ...(traces !== undefined && { traces }),
    ...(metrics !== undefined && { metrics }),
    sampleRatio: sampleRatioOf(env),
    batchDelayMs: milliseconds(env, "OTEL_BSP_SCHEDULE_DELAY", DEFAULT_BATCH_DELAY_MS),
    metricIntervalMs: milliseconds(env, "OTEL_METRIC_EXPORT_INTERVAL", DEFAULT_METRIC_INTERVAL_MS),
  };
}

function targetOf(env: Variables, signal: Signal): OtlpTarget | undefined {
  const exporter = given(env, `OTEL_${signal}_EXPORTER`);
  if (exporter !== undefined && exporter !== "otlp" && exporter !== "none")
    throw new Error(`OTEL_${signal}_EXPORTER is "${exporter}"; use otlp or none`);
  const own = given(env, `OTEL_EXPORTER_OTLP_${signal}_ENDPOINT`);
  const shared = given(env, "OTEL_EXPORTER_OTLP_ENDPOINT");
  if (exporter === "none") return undefined;
  if (exporter === undefined && own === undefined && shared === undefined) return undefined;
  const path = `v1/${signal.toLowerCase()}`;
  const url =
    own === undefined
      ? new URL(
          path,
          `${checkedUrl("OTEL_EXPORTER_OTLP_ENDPOINT", shared ?? DEFAULT_ENDPOINT).href.replace(/\/+$/, "")}/`,
        )
      : checkedUrl(`OTEL_EXPORTER_OTLP_${signal}_ENDPOINT`, own);
  return {
    url: url.href,
    headers: {
      ...pairsOf(env, "OTEL_EXPORTER_OTLP_HEADERS"),
      ...pairsOf(env, `OTEL_EXPORTER_OTLP_${signal}_HEADERS`),
    },
    protocol: protocolOf(env, signal),
  };
}

function checkedUrl(name: string, text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || (url.protocol !== "http:" && url.protocol !== "https:"))
    throw new Error(`${name} is "${text}"; use a URL such as ${DEFAULT_ENDPOINT}`);
  return url;
}

function protocolOf(env: Variables, signal: Signal): OtlpTarget["protocol"] {
  const name = `OTEL_EXPORTER_OTLP_${signal}_PROTOCOL`;
  const protocol = given(env, name) ?? given(env, "OTEL_EXPORTER_OTLP_PROTOCOL") ?? "http/protobuf";
  if (protocol === "http/protobuf" || protocol === "http/json") return protocol;
  throw new Error(
    `the OTLP protocol is "${protocol}"; use http/protobuf or http/json, which collectors accept on port 4318`,
  );
}

function sampleRatioOf(env: Variables): number {
  const sampler = given(env, "OTEL_TRACES_SAMPLER") ?? "parentbased_always_on";
  switch (sampler) {
    case "always_on":
    case "parentbased_always_on":
      return 1;
    case "always_off":
    case "parentbased_always_off":
      return 0;
    case "traceidratio":
    case "parentbased_traceidratio":
      return ratioOf(env["OTEL_TRACES_SAMPLER_ARG"] || "1");
    default:
      throw new Error(
        `OTEL_TRACES_SAMPLER is "${sampler}"; use parentbased_always_on, parentbased_always_off or parentbased_traceidratio`,
      );
  }
}

function ratioOf(text: string): number {
  const ratio = Number(text);
  if (ratio >= 0 && ratio <= 1) return ratio;
  throw new Error(`OTEL_TRACES_SAMPLER_ARG is "${text}"; use a number from 0 to 1`);
}

function milliseconds(env: Variables, name: string, fallback: number): number {
  const text = given(env, name);
  if (text === undefined) return fallback;
  const value = Number(text);
  if (Number.isInteger(value) && value > 0 && value < 2 ** 31) return value;
  throw new Error(`${name} is "${text}"; use a number of milliseconds`);
}

/** `name=value,name=value`, with percent-encoded values. */
function pairsOf(env: Variables, name: string): Record<string, string> {
  const pairs: Record<string, string> = {};
  for (const pair of (given(env, name) ?? "").split(",").filter((part) => part.trim() !== "")) {
    const split = pair.indexOf("=");
    if (split < 1) throw new Error(`${name} must be name=value pairs, separated by commas`);
    pairs[pair.slice(0, split).trim()] = decoded(pair.slice(split + 1).trim());
  }
  return pairs;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    // A value that is not percent-encoded is used literally.
    return text;
  }
}

function given(env: Variables, name: string): string | undefined {
  const value = env[name]?.trim();
  return value === "" ? undefined : value;
}
