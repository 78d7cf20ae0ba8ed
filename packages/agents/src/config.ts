/** Everything that the agent service reads from its options and from the environment. */
import { stat } from "node:fs/promises";
import { BlockList, isIPv4, isIPv6 } from "node:net";
import { join, resolve } from "node:path";
import { policyFromEnvironment } from "@sandkasten/tools";
import type { SandboxPolicy } from "@sandkasten/tools";
import type { Variables } from "./models/model-registry.ts";

export interface AgentServiceOptions {
  /** Contains `agents/*.prompt` and `workflows/*.yaml`. */
  readonly dir: string;
  /**
   * `host:port`; port 0 picks a free port. Default: SANDKASTEN_AGENTS_LISTEN, or else
   * 127.0.0.1:8587.
   */
  readonly listen?: string | undefined;
  /** Default: SANDKASTEN_AGENTS_DATA_DIR, or else `DIR/.sandkasten`. */
  readonly dataDir?: string | undefined;
  /** Required beyond loopback. Default: SANDKASTEN_AGENTS_API_KEY, or else none. */
  readonly apiKey?: string | undefined;
  /** The daemon's URL. Default: SANDKASTEN_URL, or else http://127.0.0.1:8080. */
  readonly daemonUrl?: string | undefined;
  /** Default: SANDKASTEN_API_KEY. */
  readonly daemonApiKey?: string | undefined;
  /**
   * The directory of files for `sandbox_stage_file` and `sandbox_publish_file`. Default:
   * SANDKASTEN_AGENTS_FILES_DIR, or else `DIR/files` if it exists.
   */
  readonly filesDir?: string | undefined;
  /**
   * Environment variables that replace absent options and that models read. Default: the process's
   * own.
   */
  readonly env?: Variables | undefined;
}

export interface AgentServiceConfig {
  readonly dir: string;
  readonly host: string;
  readonly port: number;
  readonly databasePath: string;
  readonly apiKey: string | undefined;
  readonly allowedHosts: readonly string[];
  readonly daemonUrl: string;
  readonly daemonApiKey: string | undefined;
  readonly filesDir: string | undefined;
  readonly defaultModel: string | undefined;
  readonly modelIdleSeconds: number;
  readonly leaseSeconds: number;
  readonly maxConcurrentRuns: number;
  readonly retentionDays: number;
  readonly policy: SandboxPolicy;
  readonly env: Variables;
}

const DEFAULT_LISTEN = "127.0.0.1:8587";
const DEFAULT_DAEMON_URL = "http://127.0.0.1:8080";
const DEFAULT_IDLE_SECONDS = 120;
/**
 * A dead process's sessions expire this long after their last renewal: well within five minutes.
 */
const DEFAULT_LEASE_SECONDS = 240;
const DEFAULT_MAX_RUNS = 64;
const DEFAULT_RETENTION_DAYS = 30;

/** Throws if a setting is invalid: the message says what to change. */
export async function loadConfig(options: AgentServiceOptions): Promise<AgentServiceConfig> {
  const env: Variables = options.env ?? process.env;
  const variable = (name: string): string | undefined => env[name] || undefined;
  const dir = resolve(options.dir);
  const apiKey = options.apiKey ?? variable("SANDKASTEN_AGENTS_API_KEY");
  const listen = options.listen ?? variable("SANDKASTEN_AGENTS_LISTEN") ?? DEFAULT_LISTEN;
  const { host, port } = parseListen(listen);
  refuseExposure(host, port, apiKey);
  const dataDir =
    options.dataDir ?? variable("SANDKASTEN_AGENTS_DATA_DIR") ?? join(dir, ".sandkasten");
  return {
    dir,
    host,
    port,
    databasePath: join(resolve(dataDir), "agents.db"),
    apiKey,
    allowedHosts: (variable("SANDKASTEN_AGENTS_ALLOWED_HOSTS") ?? "")
      .split(",")
      .map((name) => name.trim())
      .filter((name) => name !== ""),
    daemonUrl: options.daemonUrl ?? variable("SANDKASTEN_URL") ?? DEFAULT_DAEMON_URL,
    daemonApiKey: options.daemonApiKey ?? variable("SANDKASTEN_API_KEY"),
    filesDir:
      options.filesDir ??
      variable("SANDKASTEN_AGENTS_FILES_DIR") ??
      (await existingDirectory(join(dir, "files"))),
    defaultModel: variable("SANDKASTEN_AGENTS_MODEL"),
    modelIdleSeconds: numberOf(
      env,
      "SANDKASTEN_AGENTS_MODEL_IDLE_SECONDS",
      DEFAULT_IDLE_SECONDS,
      [1, 3600],
    ),
    leaseSeconds: numberOf(env, "SANDKASTEN_AGENTS_LEASE_SECONDS", DEFAULT_LEASE_SECONDS, [4, 280]),
    maxConcurrentRuns: numberOf(env, "SANDKASTEN_AGENTS_MAX_RUNS", DEFAULT_MAX_RUNS, [1, 10_000]),
    retentionDays: numberOf(
      env,
      "SANDKASTEN_AGENTS_RETENTION_DAYS",
      DEFAULT_RETENTION_DAYS,
      [1, 36_500],
    ),
    policy: policyFromEnvironment(env),
    env,
  };
}

function parseListen(text: string): { readonly host: string; readonly port: number } {
  const match = /^(?:\[(?<v6>[^\]]+)\]|(?<name>[^:[\]]+)):(?<port>\d{1,5})$/.exec(text);
  const { v6, name = "", port = "" } = match?.groups ?? {};
  if (match === null || Number(port) > 65_535 || (v6 !== undefined && !isIPv6(v6)))
    throw new Error(
      `"${text}" is not a valid listen address. Write it as host:port, for example 127.0.0.1:8587.`,
    );
  return { host: v6 ?? name, port: Number(port) };
}

/**
 * SECURITY: anyone who reaches the service can run code and spend the models' money, so beyond
 * loopback there must be a key that the operator chose. Guarded by config.test.ts.
 */
function refuseExposure(host: string, port: number, apiKey: string | undefined): void {
  if (apiKey !== undefined && !/^[\x21-\x7e]{8,}$/.test(apiKey))
    throw new Error(
      "The key of the agent service must have at least 8 printable characters without spaces.",
    );
  if (isLoopback(host) || apiKey !== undefined) return;
  throw new Error(
    `${host} is reachable from other machines and no key is set. Set SANDKASTEN_AGENTS_API_KEY, or listen on 127.0.0.1:${port}.`,
  );
}

function isLoopback(host: string): boolean {
  const loopback = new BlockList();
  loopback.addSubnet("127.0.0.0", 8, "ipv4");
  loopback.addAddress("::1", "ipv6");
  if (isIPv4(host)) return loopback.check(host, "ipv4");
  if (isIPv6(host)) return loopback.check(host, "ipv6");
  return host.toLowerCase() === "localhost";
}

function numberOf(
  env: Variables,
  name: string,
  fallback: number,
  [least, most]: readonly [number, number],
): number {
  const text = env[name] || undefined;
  if (text === undefined) return fallback;
  const value = Number(text);
  if (Number.isFinite(value) && value >= least && value <= most) return value;
  throw new Error(`${name} is "${text}", but must be a number from ${least} to ${most}.`);
}

async function existingDirectory(path: string): Promise<string | undefined> {
  try {
    return (await stat(path)).isDirectory() ? path : undefined;
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw error;
  }
}
