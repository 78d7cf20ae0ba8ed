/** Sends spans of tool calls to a collector, if the environment names one. */
import { startTelemetry, telemetryFromEnvironment } from "@sandkasten/telemetry";
import type { StartedTelemetry, Variables } from "@sandkasten/telemetry";
import { SERVER_INFO } from "./build-server.ts";

const SERVICE_NAME = "sandkasten-mcp";

/** Never rejects: an unusable variable is reported, and nothing is sent. */
export async function startMcpTelemetry(
  env: Variables,
  onFailure: (reason: string) => unknown,
): Promise<StartedTelemetry | undefined> {
  const report = (reason: string): void => void onFailure(reason);
  try {
    const settings = telemetryFromEnvironment(env, { serviceName: SERVICE_NAME });
    if (settings === undefined) return undefined;
    const { version } = SERVER_INFO;
    return await startTelemetry(settings, { version, isGlobal: true, onFailure: report });
  } catch (error) {
    report(`no traces are sent: ${String(error)}`);
    return undefined;
  }
}
