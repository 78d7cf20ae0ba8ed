/** Sends the agent service's spans and metrics to a collector, if the environment names one. */
import { startTelemetry, telemetryFromEnvironment } from "@sandkasten/telemetry";
import type { StartedTelemetry, Variables } from "@sandkasten/telemetry";
import type { Logger } from "pino";
import type { AgentMetrics } from "./agent-metrics.ts";

const SERVICE_NAME = "sandkasten-agents";
const VERSION = "0.1.0";
const GENKIT_SCOPE = "genkit-tracer";

/** Must be called before the first model request: Genkit's spans join the active ones. */
export async function startAgentTelemetry(
  env: Variables,
  metrics: AgentMetrics,
  log: Logger,
): Promise<StartedTelemetry | undefined> {
  // SECURITY: Genkit's spans contain whole prompts and answers. Guarded by
  // agent-telemetry.serial.test.ts.
  const keepsPrompts = env["SANDKASTEN_AGENTS_TRACE_PROMPTS"] === "true";
  try {
    const settings = telemetryFromEnvironment(env, { serviceName: SERVICE_NAME });
    if (settings === undefined) return undefined;
    return await startTelemetry(settings, {
      version: VERSION,
      isGlobal: true,
      families: () => Promise.resolve(metrics.families()),
      keepsScope: (name) => keepsPrompts || name !== GENKIT_SCOPE,
      onFailure: (reason) => log.warn({ reason }, "telemetry could not be sent"),
    });
  } catch (error) {
    // Variables that other programs need in another form must not prevent the start.
    log.warn({ reason: String(error) }, "no traces and metrics are sent");
    return undefined;
  }
}
