import { expect, it } from "vitest";
import { makePlace } from "./testing/load-fixture.ts";

it("sends nothing unless an endpoint is configured", async () => {
  const { telemetry } = await (await makePlace()).load({});
  expect(telemetry).toEqual({});
});

it("accepts the standard variables, but prefers its own keys", async () => {
  const { telemetry, settings } = await (
    await makePlace()
  ).load({
    env: {
      OTEL_EXPORTER_OTLP_ENDPOINT: "http://standard.test:4318",
      OTEL_SERVICE_NAME: "standard",
      SANDKASTEN_TELEMETRY_ENDPOINT: "http://own.test:4318",
      SANDKASTEN_TELEMETRY_HEADERS: "authorization=Bearer%20secret-token",
    },
  });
  expect(telemetry.otlp).toMatchObject({
    serviceName: "standard",
    traces: {
      url: "http://own.test:4318/v1/traces",
      headers: { authorization: "Bearer secret-token" },
    },
  });
  expect(JSON.stringify(settings)).not.toContain("secret-token");
});

it("starts without telemetry if a standard variable is not supported, and says so", async () => {
  const { telemetry, warnings } = await (
    await makePlace()
  ).load({
    env: {
      OTEL_EXPORTER_OTLP_ENDPOINT: "http://collector.test:4317",
      OTEL_EXPORTER_OTLP_PROTOCOL: "grpc",
      SANDKASTEN_TELEMETRY_METRICS_LISTEN: "127.0.0.1:9464",
    },
  });
  expect(telemetry).toEqual({ metricsListen: { host: "127.0.0.1", port: 9464 } });
  expect(warnings.join("\n")).toMatch(/traces and metrics are not sent: .*http\/protobuf/);
});
