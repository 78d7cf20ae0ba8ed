/** Starts the daemon stage by stage, and stops it in reverse order. */
import { SandboxError } from "@sandkasten/protocol";
import { prometheusText } from "@sandkasten/telemetry";
import { pino } from "pino";
import type { Logger } from "pino";
import { composeDaemon } from "./compose.ts";
import { composeProviders, tryBackend } from "./compose-backends.ts";
import { sharedInstance } from "./compose-stores.ts";
import type { DaemonParts } from "./compose.ts";
import { BACKEND_NAMES } from "./config/backend-names.ts";
import type { BackendName } from "./config/backend-names.ts";
import type { Config } from "./config/config.ts";
import { prepareDataDir } from "./data-dir.ts";
import { lockDataDir } from "./data-dir-lock.ts";
import { ensureApiKey } from "./config/ensure-api-key.ts";
import { failureForLog } from "./failure-for-log.ts";
import { batchedLines } from "./log-lines.ts";
import { lowerOomScore } from "./oom-score.ts";
import type { BackendHealth } from "./ports/backend.ts";
import type { AgentServiceAddress } from "./surfaces/dashboard/agent-forwarding.ts";
import { VERSION } from "./version.ts";
import { MetricsServer } from "./telemetry/metrics-server.ts";

/** Makes every logged error pass through the filter for logs. */
const LOG_SERIALIZERS = {
  err: (error: unknown): unknown => (error instanceof Error ? failureForLog(error) : error),
};

export interface StartOptions {
  /** Called at the start of every stage. */
  readonly onProgress?: (stage: string) => void;
  /** Where the daemon's log goes; stderr when absent. */
  readonly log?: Logger;
  /** Aborts the start between two stages, and stops what was already started. */
  readonly signal?: AbortSignal;
}

export interface Daemon {
  readonly url: string;
  /** A key that the daemon accepts. */
  readonly apiKey: string;
  /**
   * The daemon generated the key, so it may be shown; a configured key is the administrator's
   * secret.
   */
  readonly apiKeyGenerated: boolean;
  /** Sets the dashboard's agent service address, unless the configuration has set it. */
  useAgentService(address: AgentServiceAddress): void;
  /** Waits for requests to finish, then keeps or destroys the sandboxes, as configured. */
  stop(): Promise<void>;
}

export async function startDaemon(config: Config, options: StartOptions = {}): Promise<Daemon> {
  const log =
    options.log ?? pino({ level: config.logLevel, serializers: LOG_SERIALIZERS }, batchedLines());
  const stage = (name: string): void => {
    options.signal?.throwIfAborted();
    options.onProgress?.(name);
  };
  for (const warning of config.warnings) log.warn(warning);
  const stack = new AsyncDisposableStack();
  try {
    stage("data directory");
    await lowerOomScore(log);
    await prepareDataDir(config);
    stack.use(lockDataDir(config.dataDir));
    const { key: apiKey, generated: apiKeyGenerated, apiKeys } = await ensureApiKey(config);
    stage("sandboxes and images");
    const parts = await composeDaemon(config, apiKeys, log);
    stack.defer(() => parts.store.close());
    stack.defer(async () => await parts.events.close());
    stack.defer(async () => await parts.keys.close());
    stack.defer(async () => await parts.spans?.stop());
    stage("earlier sessions");
    const { takenOver } = await parts.core.start();
    takenOver.then(
      (done) => log.info({ ...done }, "took over the sandboxes of an earlier daemon"),
      (error: unknown) =>
        log.error({ err: error }, "cannot take over the sandboxes of an earlier daemon"),
    );
    parts.events.record({ type: "daemon.started", owner: "", data: { version: VERSION } });
    stage("listener");
    await listenForMetrics(parts, config, stack, log);
    const url = await listen(parts, config);
    log.info({ url }, "listening");
    return {
      url,
      apiKey,
      apiKeyGenerated,
      useAgentService: (address) => {
        parts.agents.address ??= address;
      },
      stop: async () => await stop(parts, config, stack, log),
    };
  } catch (error) {
    await stack.disposeAsync();
    throw error;
  }
}

/** A backend as found on this machine. */
export interface CheckedBackend extends BackendHealth {
  readonly name: string;
  /** It is the default backend, or sessions may request it. */
  readonly configured: boolean;
}

export interface CheckedMachine {
  /** The default backend works. */
  readonly usable: boolean;
  readonly backends: readonly CheckedBackend[];
}

/**
 * What backends can do here: `all` of them, or only those `needed`. Rejects only for an unusable
 * data directory, not for what the machine lacks.
 */
export async function checkMachine(
  config: Config,
  which: "all" | "needed",
): Promise<CheckedMachine> {
  await prepareDataDir(config);
  const found = new Map<BackendName, BackendHealth>();
  let usual = config.backend === "auto" ? undefined : config.backend;
  for (const name of BACKEND_NAMES) {
    const needed = (usual ?? name) === name || config.backends.includes(name);
    if (!needed && which === "needed") continue;
    const { health } = await tryBackend(name, config);
    found.set(name, health);
    if (health.usable) usual ??= name;
  }
  return {
    usable: usual !== undefined && found.get(usual)?.usable === true,
    backends: [...found].map(([name, health]) => ({
      name,
      configured: name === usual || config.backends.includes(name),
      ...health,
    })),
  };
}

/**
 * Destroys every sandbox in the data directory, whose daemon must not be running; with
 * `database_url`, also the sandboxes on this daemon's engine of all daemons that share the
 * database. Returns their ids.
 */
export async function sweep(config: Config): Promise<readonly string[]> {
  await prepareDataDir(config);
  using _lock = lockDataDir(config.dataDir);
  const swept: string[] = [];
  const { all } = await composeProviders(config, undefined, await sharedInstance(config));
  for (const { backend } of all) {
    for (const { id } of await backend.list()) {
      await backend.destroy(id);
      swept.push(id);
    }
    // Another daemon that shares the sandboxes may already have swept them.
    await backend.tidy();
  }
  return swept;
}

async function listen({ app }: DaemonParts, { listen: { host, port } }: Config): Promise<string> {
  try {
    return await app.listen({ host, port });
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    if (code !== "EADDRINUSE" && code !== "EACCES" && code !== "EADDRNOTAVAIL") throw cause;
    const why = {
      EADDRINUSE: "is in use",
      EACCES: "is not allowed",
      EADDRNOTAVAIL: "does not exist on this machine",
    };
    throw new SandboxError(
      "CONFLICT",
      `the address ${host}:${port} ${why[code]}; listen elsewhere with SANDKASTEN_LISTEN or --listen`,
      { cause },
    );
  }
}

async function listenForMetrics(
  { metrics, core }: DaemonParts,
  { telemetry: { metricsListen } }: Config,
  stack: AsyncDisposableStack,
  log: Logger,
): Promise<void> {
  if (metricsListen === undefined) return;
  const { host, port } = metricsListen;
  try {
    const server = await MetricsServer.listen(
      metricsListen,
      async () => prometheusText(await metrics.families(core)),
      (error) => log.error({ err: error }, "the metrics could not be served"),
    );
    stack.use(server);
    log.info({ host, port: server.port }, "serving metrics");
  } catch (cause) {
    throw new SandboxError(
      "CONFLICT",
      `cannot serve metrics at ${host}:${port}; change telemetry.metrics_listen`,
      { cause },
    );
  }
}

/** Accepts no new requests; those in progress finish, or fail because the daemon stops. */
async function stop(
  { app, core }: DaemonParts,
  config: Config,
  stack: AsyncDisposableStack,
  log: Logger,
): Promise<void> {
  app.beginShutdown();
  await core.stop(config.shutdown);
  await app.close();
  await stack.disposeAsync();
  log.info("stopped");
}
