/** The daemon as a whole: brought up stage by stage, and taken down in the reverse order. */
import { mkdir } from "node:fs/promises";
import { SandboxError } from "@sandkasten/protocol";
import { pino } from "pino";
import type { Logger } from "pino";
import { tryBackend, composeDaemon, composeProviders } from "./compose.ts";
import type { BackendName, DaemonParts } from "./compose.ts";
import type { Config } from "./config/config.ts";
import { lockDataDir } from "./data-dir-lock.ts";
import { ensureApiKey } from "./config/ensure-api-key.ts";
import type { BackendHealth } from "./ports/backend.ts";

export interface StartOptions {
  /** Told of every stage as it begins. */
  readonly onProgress?: (stage: string) => void;
  /** Where the daemon's log goes; stderr when absent. */
  readonly log?: Logger;
}

export interface Daemon {
  readonly url: string;
  /** A key that it accepts. */
  readonly apiKey: string;
  /** Lets requests end, then keeps or destroys the sandboxes, as configured. */
  stop(): Promise<void>;
}

export async function startDaemon(config: Config, options: StartOptions = {}): Promise<Daemon> {
  const log = options.log ?? pino({ level: config.logLevel }, pino.destination(2));
  const stage = options.onProgress ?? ((): void => undefined);
  for (const warning of config.warnings) log.warn(warning);
  const stack = new AsyncDisposableStack();
  try {
    stage("data directory");
    await mkdir(config.dataDir, { recursive: true, mode: 0o700 });
    stack.use(lockDataDir(config.dataDir));
    const { key: apiKey, apiKeys } = await ensureApiKey(config);
    stage("sandboxes and images");
    const parts = await composeDaemon(config, apiKeys, log);
    stack.defer(() => parts.store.close());
    stage("earlier sessions");
    const reconciled = await parts.core.start();
    stage("listener");
    const url = await listen(parts, config);
    log.info({ url, ...reconciled }, "listening");
    return { url, apiKey, stop: async () => await stop(parts, config, stack, log) };
  } catch (error) {
    await stack.disposeAsync();
    throw error;
  }
}

/** A backend as it is found here. */
export interface CheckedBackend extends BackendHealth {
  readonly name: string;
  /** It is the usual one, or one that sessions may ask for. */
  readonly configured: boolean;
}

export interface CheckedMachine {
  /** The usual backend works. */
  readonly usable: boolean;
  readonly backends: readonly CheckedBackend[];
}

/** What backends can do here: `all` that there are, or those that are `needed`. Never rejects for what the machine lacks. */
export async function checkMachine(
  config: Config,
  which: "all" | "needed",
): Promise<CheckedMachine> {
  const found = new Map<BackendName, BackendHealth>();
  let usual = config.backend === "auto" ? undefined : config.backend;
  for (const name of ["oci", "docker"] as const) {
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

/** Destroys every sandbox in the data directory, whose daemon must not run; tells which. */
export async function sweep(config: Config): Promise<readonly string[]> {
  using _lock = lockDataDir(config.dataDir);
  const swept: string[] = [];
  for (const { backend } of (await composeProviders(config)).all)
    for (const { id } of await backend.list()) {
      await backend.destroy(id);
      swept.push(id);
    }
  return swept;
}

async function listen({ app }: DaemonParts, { listen: { host, port } }: Config): Promise<string> {
  try {
    return await app.listen({ host, port });
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    if (code !== "EADDRINUSE" && code !== "EACCES" && code !== "EADDRNOTAVAIL") throw cause;
    const why = { EADDRINUSE: "is in use", EACCES: "is not allowed", EADDRNOTAVAIL: "is not here" };
    throw new SandboxError(
      "CONFLICT",
      `the address ${host}:${port} ${why[code]}; listen elsewhere with SANDKASTEN_LISTEN or --listen`,
      { cause },
    );
  }
}

/** No new requests; those under way end, or are told that the daemon stops. */
async function stop(
  { app, core }: DaemonParts,
  config: Config,
  stack: AsyncDisposableStack,
  log: Logger,
): Promise<void> {
  const closed = app.close();
  await core.stop(config.shutdown);
  await closed;
  await stack.disposeAsync();
  log.info("stopped");
}
