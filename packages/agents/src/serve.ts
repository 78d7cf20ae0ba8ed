/** Composes the agent service and starts it. */
import type { AddressInfo } from "node:net";
import { pino } from "pino";
import type { Logger } from "pino";
import { SandboxClient } from "@sandkasten/sdk";
import { DirectoryFileStore } from "@sandkasten/tools";
import { loadConfig } from "./config.ts";
import type { AgentServiceConfig, AgentServiceOptions } from "./config.ts";
import { DEFAULT_TURN_LIMITS } from "./models/chat-answer.ts";
import { ModelRegistry } from "./models/model-registry.ts";
import { AgentCatalogue } from "./prompts/agent-catalogue.ts";
import { LocalExecutor } from "./runs/local-executor.ts";
import { DEFAULT_RETRY } from "./runs/model-turn.ts";
import type { LoopOptions } from "./runs/run-agent.ts";
import { ProcessWatch } from "./runs/watch-processes.ts";
import { agentRoutes } from "./service/agent-routes.ts";
import { runRoutes } from "./service/run-routes.ts";
import { buildService } from "./service/service.ts";
import type { ServicePartFactory } from "./service/service-part.ts";
import { openDatabase } from "./store/database.ts";
import { EVENT_MIGRATIONS, EventLog } from "./store/event-log.ts";
import { PROCESS_MIGRATIONS, ProcessRegistry } from "./store/process-registry.ts";
import type { ProcessRegistryOptions } from "./store/process-registry.ts";
import { RUN_MIGRATIONS, RunStore } from "./store/run-store.ts";
import { workflowPart } from "./workflows/index.ts";

/** What the service has beside agents. */
const PARTS: readonly ServicePartFactory[] = [workflowPart];

export interface StartOptions extends AgentServiceOptions {
  /** Silent when absent. */
  readonly log?: Logger | undefined;
  /** For the length of one command: runs that other processes left are not taken over. */
  readonly isTransient?: boolean | undefined;
  /** Other limits and pauses than usual, for tests. */
  readonly loop?: Partial<LoopOptions> | undefined;
  /** How soon other processes take this one for dead, for tests. */
  readonly heartbeat?: ProcessRegistryOptions | undefined;
}

export interface RunningAgentService extends AsyncDisposable {
  readonly url: string;
  /** Cancels this process's agent runs, closes their sandboxes and stops listening. */
  close(): Promise<void>;
}

/** Starts the service. Throws when a setting is wrong, the address is taken or the database is not ours. */
export async function startAgentService(options: StartOptions): Promise<RunningAgentService> {
  const config = await loadConfig(options);
  const log = options.log ?? pino({ level: "silent" });
  const database = openDatabase(config.databasePath, [
    ...EVENT_MIGRATIONS,
    ...PROCESS_MIGRATIONS,
    ...RUN_MIGRATIONS,
    ...PARTS.flatMap(({ migrations }) => migrations),
  ]);
  const client = new SandboxClient({ baseUrl: config.daemonUrl, apiKey: config.daemonApiKey });
  const events = new EventLog(database);
  const runs = new RunStore(database);
  const processes = new ProcessRegistry(database, options.heartbeat);
  const catalogue = new AgentCatalogue({ dir: config.dir, log });
  const stopping = new AbortController();
  const executor = new LocalExecutor({
    catalogue,
    models: new ModelRegistry({ env: config.env, limits: options.loop?.limits }),
    runs,
    events,
    client,
    processId: processes.id,
    log,
    dir: config.dir,
    env: config.env,
    loop: {
      idleTimeoutMs: config.modelIdleSeconds * 1000,
      retry: DEFAULT_RETRY,
      limits: DEFAULT_TURN_LIMITS,
      ...options.loop,
    },
    defaultModel: config.defaultModel,
    policy: config.policy,
    fileStore: config.filesDir === undefined ? undefined : new DirectoryFileStore(config.filesDir),
    leaseSeconds: config.leaseSeconds,
    maxConcurrentRuns: config.maxConcurrentRuns,
  });
  const watch = new ProcessWatch({ processes, runs, events, executor, client, log });
  const parts = PARTS.map((part) =>
    part.create({
      database,
      events,
      executor,
      client,
      dir: config.dir,
      processes,
      log,
      leaseSeconds: config.leaseSeconds,
      isTransient: options.isTransient ?? false,
      stopping: stopping.signal,
    }),
  );
  const app = buildService({
    apiKey: config.apiKey,
    allowedHosts: config.allowedHosts,
    log,
    modules: [
      agentRoutes(catalogue, config.defaultModel),
      runRoutes({ catalogue, executor, runs, events, stopping: stopping.signal }),
      ...parts.map(({ routes }) => routes),
    ],
  });
  let closing: Promise<void> | undefined;
  const close = async (): Promise<void> => {
    for (const part of parts) await part.close();
    // Runs end first, so that those who follow them hear of it.
    await executor.close();
    stopping.abort();
    await app.close();
    catalogue.close();
    await watch.stop();
    processes.stop();
    database.close();
  };
  const closeOnce = (): Promise<void> => (closing ??= close());
  try {
    await catalogue.open();
    processes.start();
    watch.start();
    for (const part of parts) await part.start();
    await app.listen({ host: config.host, port: config.port });
  } catch (error) {
    await closeOnce();
    throw error;
  }
  const { port } = app.server.address() as AddressInfo;
  return { url: urlOf(config, port), close: closeOnce, [Symbol.asyncDispose]: closeOnce };
}

function urlOf({ host }: AgentServiceConfig, port: number): string {
  return `http://${host.includes(":") ? `[${host}]` : host}:${port}`;
}
