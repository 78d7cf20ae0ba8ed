import { expect, it } from "vitest";
import { telemetryFromEnvironment } from "./settings-from-environment.ts";
import type { Variables } from "./settings-from-environment.ts";

const read = (env: Variables) => telemetryFromEnvironment(env, { serviceName: "fallback" });

it("is off unless an endpoint or an exporter is named", () => {
  expect(read({})).toBeUndefined();
  expect(read({ OTEL_SERVICE_NAME: "x", OTEL_EXPORTER_OTLP_ENDPOINT: " " })).toBeUndefined();
  expect(
    read({ OTEL_EXPORTER_OTLP_ENDPOINT: "http://c:4318", OTEL_SDK_DISABLED: "TRUE" }),
  ).toBeUndefined();
  expect(
    read({
      OTEL_EXPORTER_OTLP_ENDPOINT: "http://c:4318",
      OTEL_TRACES_EXPORTER: "none",
      OTEL_METRICS_EXPORTER: "none",
    }),
  ).toBeUndefined();
});

it("adds the paths of the signals to the common endpoint, and uses a signal's own unchanged", () => {
  const settings = read({
    OTEL_EXPORTER_OTLP_ENDPOINT: "http://c:4318/otlp/",
    OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: "https://m/push",
    OTEL_EXPORTER_OTLP_HEADERS: "authorization=Bearer%20a,x-b=%",
    OTEL_EXPORTER_OTLP_METRICS_HEADERS: "x-b=2",
    OTEL_EXPORTER_OTLP_METRICS_PROTOCOL: "http/json",
  });
  expect(settings?.traces).toEqual({
    url: "http://c:4318/otlp/v1/traces",
    headers: { authorization: "Bearer a", "x-b": "%" },
    protocol: "http/protobuf",
  });
  expect(settings?.metrics).toEqual({
    url: "https://m/push",
    headers: { authorization: "Bearer a", "x-b": "2" },
    protocol: "http/json",
  });
});

it("uses the standard address for an exporter without an endpoint", () => {
  const settings = read({ OTEL_TRACES_EXPORTER: "otlp" });
  expect(settings?.traces?.url).toBe("http://localhost:4318/v1/traces");
  expect(settings?.metrics).toBeUndefined();
});

it("reads name, attributes, sampling and intervals", () => {
  const settings = read({
    OTEL_TRACES_EXPORTER: "otlp",
    OTEL_RESOURCE_ATTRIBUTES: "service.name=mine,deployment.environment=test",
    OTEL_TRACES_SAMPLER: "parentbased_traceidratio",
    OTEL_TRACES_SAMPLER_ARG: "0.25",
    OTEL_BSP_SCHEDULE_DELAY: "100",
    OTEL_METRIC_EXPORT_INTERVAL: "1000",
  });
  expect(settings).toMatchObject({
    serviceName: "mine",
    resourceAttributes: { "deployment.environment": "test" },
    sampleRatio: 0.25,
    batchDelayMs: 100,
    metricIntervalMs: 1000,
  });
  expect(read({ OTEL_TRACES_EXPORTER: "otlp" })).toMatchObject({
    serviceName: "fallback",
    sampleRatio: 1,
  });
});

it.each([
  [{ OTEL_EXPORTER_OTLP_ENDPOINT: "collector" }, "OTEL_EXPORTER_OTLP_ENDPOINT"],
  [{ OTEL_TRACES_EXPORTER: "zipkin" }, "OTEL_TRACES_EXPORTER"],
  [{ OTEL_TRACES_EXPORTER: "otlp", OTEL_EXPORTER_OTLP_PROTOCOL: "grpc" }, "http/protobuf"],
  [{ OTEL_TRACES_EXPORTER: "otlp", OTEL_TRACES_SAMPLER: "jaeger" }, "OTEL_TRACES_SAMPLER"],
  [
    {
      OTEL_TRACES_EXPORTER: "otlp",
      OTEL_TRACES_SAMPLER: "traceidratio",
      OTEL_TRACES_SAMPLER_ARG: "2",
    },
    "OTEL_TRACES_SAMPLER_ARG",
  ],
  [{ OTEL_TRACES_EXPORTER: "otlp", OTEL_BSP_SCHEDULE_DELAY: "soon" }, "OTEL_BSP_SCHEDULE_DELAY"],
  [{ OTEL_TRACES_EXPORTER: "otlp", OTEL_EXPORTER_OTLP_HEADERS: "x" }, "OTEL_EXPORTER_OTLP_HEADERS"],
])("says what to change in %j", (env, named) => {
  expect(() => read(env)).toThrow(named);
});
