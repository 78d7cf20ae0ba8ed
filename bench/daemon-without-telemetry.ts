/**
 * A daemon to measure whose telemetry hooks do nothing, for comparison with one that has them and
 * sends nothing.
 */
import { NO_TELEMETRY } from "../packages/daemon/src/ports/telemetry.ts";
import { DaemonTelemetry } from "../packages/daemon/src/telemetry/daemon-telemetry.ts";
import { RequestMetrics } from "../packages/daemon/src/telemetry/request-metrics.ts";

Object.assign(DaemonTelemetry.prototype, NO_TELEMETRY);
Object.assign(RequestMetrics.prototype, { count: () => undefined });
await import("./daemon-process.ts");
