/** Starts the agent service and stops it again. */
import type { AddressInfo } from "node:net";
import { pino } from "pino";
import { composeService } from "./compose.ts";
import type { ComposeOptions } from "./compose.ts";
import { loadConfig } from "./config.ts";
import type { AgentServiceOptions } from "./config.ts";

export type StartOptions = AgentServiceOptions & ComposeOptions;

export interface RunningAgentService extends AsyncDisposable {
  readonly url: string;
  /** Cancels this process's agent runs, closes their sandboxes and stops listening. */
  close(): Promise<void>;
}

/** Throws when a setting is wrong, the address is taken or the database is not ours. */
export async function startAgentService(options: StartOptions): Promise<RunningAgentService> {
  const config = await loadConfig(options);
  const { app, start, stop } = composeService(config, {
    ...options,
    log: options.log ?? pino({ level: "silent" }),
  });
  let stopping: Promise<void> | undefined;
  const close = (): Promise<void> => (stopping ??= stop());
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
