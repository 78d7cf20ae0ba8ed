/** Starts the agent service and stops it again. */
import type { AddressInfo } from "node:net";
import { pino } from "pino";
import { composeService } from "./compose.ts";
import type { ComposeOptions } from "./compose.ts";
import { loadConfig } from "./config.ts";
import type { AgentServiceOptions } from "./config.ts";
import { AgentMetrics } from "./telemetry/agent-metrics.ts";
import { startAgentTelemetry } from "./telemetry/start-agent-telemetry.ts";

export type StartOptions = AgentServiceOptions & ComposeOptions;

export interface RunningAgentService extends AsyncDisposable {
  readonly url: string;
  /** Cancels this process's agent runs, closes their sandboxes and stops listening. */
  close(): Promise<void>;
}

/**
 * Throws if a setting is wrong, the address is in use or the database belongs to another program.
 */
export async function startAgentService(options: StartOptions): Promise<RunningAgentService> {
  const config = await loadConfig(options);
  const log = options.log ?? pino({ level: "silent" });
  const metrics = new AgentMetrics();
  const telemetry = await startAgentTelemetry(config.env, metrics, log);
  const { app, start, stop } = composeService(config, { ...options, log, metrics });
  let stopping: Promise<void> | undefined;
  const stopAll = async (): Promise<void> => {
    try {
      await stop();
    } finally {
      await telemetry?.stop();
    }
  };
  const close = (): Promise<void> => (stopping ??= stopAll());
  try {
    await start();
    await app.listen({ host: config.host, port: config.port });
  } catch (error) {
    await close();
    throw error;
  }
  const { port } = app.server.address() as AddressInfo;
  const host = config.host.includes(":") ? `[${config.host}]` : config.host;
  return { url: `http://${host}:${port}`, close, [Symbol.asyncDispose]: close };
}
