/** The keys below `telemetry`. */
import { anyNumber, listenAddress, oneOf, serviceName, headerPairs, webAddress } from "../kinds.ts";
import { group } from "./units.ts";

export const telemetry = group({
  endpoint: webAddress().optional().meta({
    description:
      "Address of an OpenTelemetry collector that takes OTLP over HTTP, such as `http://127.0.0.1:4318`; traces and metrics go there",
    unset: "`OTEL_EXPORTER_OTLP_ENDPOINT` and the other `OTEL_*` variables decide",
  }),
  headers: headerPairs().optional().meta({
    description: "Headers for the collector, as `name=value,name=value`",
    secret: true,
    unset: "`OTEL_EXPORTER_OTLP_HEADERS`, else none",
  }),
  protocol: oneOf("http/protobuf", "http/json").optional().meta({
    description: "Encoding of the data sent to the collector",
    unset: "`OTEL_EXPORTER_OTLP_PROTOCOL`, else `http/protobuf`",
  }),
  service_name: serviceName().optional().meta({
    description: "Name of the daemon in traces and metrics",
    unset: "`OTEL_SERVICE_NAME`, else `sandkasten-daemon`",
  }),
  sample_ratio: anyNumber(0, 1).optional().meta({
    description:
      "Share of the traces that begin in the daemon and are recorded; for traces of callers, the caller decides",
    unset: "`OTEL_TRACES_SAMPLER` and `OTEL_TRACES_SAMPLER_ARG`, else 1",
  }),
  metrics_listen: listenAddress().optional().meta({
    description:
      "A second address, `host:port`, that serves only `/metrics`, without a key, for Prometheus",
    unset: "`/metrics` is served by the API alone, for keys of administrators",
  }),
});
