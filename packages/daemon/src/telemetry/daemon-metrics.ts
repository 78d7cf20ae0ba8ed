/** All metrics of the daemon, for both `/metrics` and a collector. */
import type { MetricFamily } from "@sandkasten/telemetry";
import type { Services } from "../sessions/services/services.ts";
import { LifecycleMetrics } from "./lifecycle-metrics.ts";
import { RequestMetrics } from "./request-metrics.ts";
import { serviceFamilies } from "./service-families.ts";

export class DaemonMetrics {
  readonly lifecycle = new LifecycleMetrics();
  readonly requests = new RequestMetrics();

  async families(services: Pick<Services, "counts" | "storage">): Promise<readonly MetricFamily[]> {
    return [
      ...this.lifecycle.families(),
      ...serviceFamilies(services.counts(), await services.storage()),
      ...this.requests.families(),
    ];
  }
}
