/** Composes the agent service: the only module that knows all of its parts. */
import type { DatabaseSync } from "node:sqlite";
import type { FastifyInstance } from "fastify";
import type { Logger } from "pino";
import { SandboxClient } from "@sandkasten/sdk";
import { DirectoryFileStore } from "@sandkasten/tools";
import type { AgentServiceConfig } from "./config.ts";
import { DEFAULT_TURN_LIMITS } from "./models/chat-answer.ts";
import { ModelRegistry } from "./models/model-registry.ts";
import { AgentCatalogue } from "./prompts/agent-catalogue.ts";
import { DaemonWatch } from "./runs/daemon-watch.ts";
import type { DaemonWatchOptions } from "./runs/daemon-watch.ts";
import { LocalExecutor } from "./runs/local-executor.ts";
import { DEFAULT_RETRY } from "./runs/model-turn.ts";
import type { LoopOptions } from "./runs/run-agent.ts";
import { RunMaintenance } from "./runs/run-maintenance.ts";
import { agentRoutes } from "./service/agent-routes.ts";
import { runRoutes } from "./service/run-routes.ts";
import { buildService } from "./service/service.ts";
import type { ServicePart, ServicePartFactory } from "./service/service-part.ts";
import { openDatabase } from "./store/database.ts";
import { EVENT_MIGRATIONS, EventLog } from "./store/event-log.ts";
import { PROCESS_MIGRATIONS, ProcessRegistry } from "./store/process-registry.ts";
import type { ProcessRegistryOptions } from "./store/process-registry.ts";
import { RUN_MIGRATIONS, RunStore } from "./store/run-store.ts";
import type { AgentMetrics } from "./telemetry/agent-metrics.ts";
import { metricsRoute } from "./telemetry/metrics-route.ts";
import { workflowPart } from "./workflows/index.ts";

/** The parts of the service other than agents. */
const PARTS: readonly ServicePartFactory[] = [workflowPart];

export interface ComposeOptions {
  /** Silent if absent. */
  readonly log?: Logger | undefined;
  /** For a single command: runs that other processes left behind are not taken over. */
  readonly isTransient?: boolean | undefined;
  /** Different limits and pauses, for tests. */
  readonly loop?: Partial<LoopOptions> | undefined;
  /** How soon other processes consider this one dead, for tests. */
  readonly heartbeat?: ProcessRegistryOptions | undefined;
  /** How soon a hanging daemon ends runs, for tests. */
  readonly daemonWatch?: DaemonWatchOptions | undefined;
}

export interface ComposedService {
  readonly app: FastifyInstance;
  readonly start: () => Promise<void>;
  /** Also undoes a partial start. */
  readonly stop: () => Promise<void>;
}

/** Opens the database; throws if it belongs to another program. */
export function composeService(
  config: AgentServiceConfig,
  options: ComposeOptions & { readonly log: Logger; readonly metrics: AgentMetrics },
): ComposedService {
  const { log, metrics } = options;
  const database = openDatabase(config.databasePath, [
    ...EVENT_MIGRATIONS,
    ...PROCESS_MIGRATIONS,
    ...RUN_MIGRATIONS,
    ...PARTS.flatMap(({ migrations }) => migrations),
  ]);
  const client = new SandboxClient({ baseUrl: config.daemonUrl, apiKey: config.daemonApiKey });
  const events = new EventLog(database);
  const runs = new RunStore(database);
  const processes = new ProcessRegistry(database, {
    onFailure: (error) => log.error({ err: error }, "the heartbeat could not be written"),
    ...options.heartbeat,
  });
  const catalogue = new AgentCatalogue({ dir: config.dir, log });
  const stopping = new AbortController();
  const executor = new LocalExecutor({
    ...executorSettings(config, options),
    catalogue,
    runs,
    events,
    client,
    daemonWatch: new DaemonWatch(client, options.daemonWatch),
    processId: processes.id,
    log,
    metrics,
  });
  const { retentionDays } = config;
  const maintenance = new RunMaintenance({
    processes,
    runs,
    events,
    executor,
    client,
    log,
    retentionDays,
  });
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
      retentionDays,
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
      metricsRoute(metrics),
    ],
  });
  const life = { app, catalogue, database, executor, maintenance, parts, processes, stopping };
  return { app, start: () => start(life), stop: () => stop(life) };
}

interface Life {
  readonly app: FastifyInstance;
  readonly catalogue: AgentCatalogue;
  readonly database: DatabaseSync;
  readonly executor: LocalExecutor;
  readonly maintenance: RunMaintenance;
  readonly parts: readonly ServicePart[];
  readonly processes: ProcessRegistry;
  readonly stopping: AbortController;
}

async function start({ catalogue, maintenance, parts, processes }: Life): Promise<void> {
  await catalogue.open();
  processes.start();
  maintenance.start();
  for (const part of parts) await part.start();
}

async function stop(life: Life): Promise<void> {
  const { app, catalogue, database, executor, maintenance, parts, processes, stopping } = life;
  for (const part of parts) await part.close();
  // Runs end before their streams, so that followers receive the end.
  await executor.close();
  stopping.abort();
  await app.close();
  catalogue.close();
  await maintenance.stop();
  processes.stop();
  database.close();
}

function executorSettings(config: AgentServiceConfig, { loop }: ComposeOptions) {
  return {
    models: new ModelRegistry({ env: config.env, limits: loop?.limits }),
    dir: config.dir,
    env: config.env,
    loop: {
      idleTimeoutMs: config.modelIdleSeconds * 1000,
      retry: DEFAULT_RETRY,
      limits: DEFAULT_TURN_LIMITS,
      ...loop,
    },
    defaultModel: config.defaultModel,
    policy: config.policy,
    fileStore: config.filesDir === undefined ? undefined : new DirectoryFileStore(config.filesDir),
    leaseSeconds: config.leaseSeconds,
    maxConcurrentRuns: config.maxConcurrentRuns,
  };
}
