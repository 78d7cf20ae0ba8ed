/** `/metrics` of the agent service, which requires the key like every other route. */
import { prometheusText } from "@sandkasten/telemetry";
import type { RouteModule } from "../service/service.ts";
import type { AgentMetrics } from "./agent-metrics.ts";

export function metricsRoute(metrics: AgentMetrics): RouteModule {
  return (app) => {
    app.get("/metrics", (_request, reply) =>
      reply
        .type("text/plain; version=0.0.4; charset=utf-8")
        .send(prometheusText(metrics.families())),
    );
  };
}
