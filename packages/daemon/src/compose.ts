/** Builds and connects the concrete parts; the only place that does. */
import { createHmac } from "node:crypto";
import { readFile, stat } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { SandboxError } from "@sandkasten/protocol";
import { startTelemetry } from "@sandkasten/telemetry";
import type { StartedTelemetry, StartOptions } from "@sandkasten/telemetry";
import type { FastifyInstance } from "fastify";
import type { Logger } from "pino";
import type { ApiKey, Config } from "./config/config.ts";
import { ensureSecretsKey } from "./config/ensure-secrets-key.ts";
import { ensurePreviewKey } from "./config/ensure-preview-key.ts";
import { EventHub } from "./events/event-hub.ts";
import { eventLines } from "./events/event-lines.ts";
import { composeStores } from "./compose-stores.ts";
import { buildHttpApp } from "./surfaces/build-http-app.ts";
import type { AgentServiceLink } from "./surfaces/dashboard/agent-forwarding.ts";
import { StoredKeys } from "./keys/stored-keys.ts";
import type { Tokens } from "./keys/tokens.ts";
import { FileEgressLog } from "./network/file-egress-log.ts";
import { nameResolver } from "./network/name-resolver.ts";
import { ownAddresses } from "./network/own-addresses.ts";
import { SecretBox } from "./network/secret-box.ts";
import { SessionNetworks } from "./network/session-networks.ts";
import type { EgressLog } from "./ports/egress-log.ts";
import type { Log } from "./ports/log.ts";
import type { SessionStore } from "./ports/session-store.ts";
import { SessionCore } from "./sessions/core.ts";
import type { SessionSettings } from "./sessions/settings.ts";
import { systemClock } from "./system-clock.ts";
import { DaemonMetrics } from "./telemetry/daemon-metrics.ts";
import { DaemonTelemetry } from "./telemetry/daemon-telemetry.ts";
import { VERSION } from "./version.ts";
import { pagesDirectory } from "./web-pages.ts";
import { composeProviders } from "./compose-backends.ts";

/** All parts of a daemon, not yet started. */
export interface DaemonParts {
  readonly core: SessionCore;
  readonly store: SessionStore;
  readonly events: EventHub;
  readonly keys: StoredKeys;
  readonly app: FastifyInstance;
  readonly agents: AgentServiceLink;
  readonly metrics: DaemonMetrics;
  /** Absent if nothing is sent to a collector. */
  readonly spans?: StartedTelemetry | undefined;
}

export async function composeDaemon(
  config: Config,
  apiKeys: readonly ApiKey[],
  log: Logger,
): Promise<DaemonParts> {
  const stores = await composeStores(config, log, () => core.membership.fence);
  const { store, journal, instance } = stores;
  let core: SessionCore;
  let events: EventHub | undefined;
  let keys: StoredKeys | undefined;
  try {
    const providers = await composeProviders(config, log, instance);
    const settings = sessionSettings(config, providers.default.defaultImage);
    const clock = systemClock();
    const egressLog = new FileEgressLog({ directory: join(config.dataDir, "egress"), log });
    await egressLog.sweep(async (id) => (await store.getSession(id)) !== undefined);
    const networks = await composeNetworks(config, apiKeys, egressLog);
    const metrics = new DaemonMetrics();
    const spans = await composeSpans(config, log, () => metrics.families(core));
    const telemetry = new DaemonTelemetry({ log, spans });
    const { address } = config.cluster;
    const { eventLog, keyStore } = stores;
    events = new EventHub({ eventLog, clock, log, ...config.events });
    events.onEvents(eventLines(log));
    events.onEvents((recorded) => metrics.lifecycle.consume(recorded));
    core = new SessionCore({
      providers,
      store,
      journal,
      clock,
      log,
      settings,
      events,
      networks,
      telemetry,
      ...(address !== undefined && { address }),
    });
    const callers = apiKeys.map(({ key, name: owner, scope, ...rest }) => ({
      key,
      caller: {
        owner,
        isAdmin: scope === "admin",
        ...(scope === "read" && { isReadOnly: true }),
        ...rest,
      },
    }));
    keys = await StoredKeys.open({
      store: keyStore,
      clock,
      log,
      events,
      quotas: config.quotas,
      configured: apiKeys.map(({ name: owner, scope }) => ({ owner, scope })),
    });
    const agents: AgentServiceLink = { address: config.agentService };
    const app = await buildHttpApp({
      services: core,
      callers,
      storedKeys: keys,
      tokens: await composeTokens(config, log),
      log,
      version: VERSION,
      backends: providers.names,
      limits: config.http,
      allowedHosts: [config.listen.host, ...config.http.allowedHosts],
      allowedOrigins: config.http.allowedOrigins,
      uploadDir: join(config.dataDir, "uploads"),
      siteDir: await builtSite(log),
      preview: { ...config.preview, key: await previewKey(config) },
      dashboard: { directory: pagesDirectory("dashboard"), agents },
      ...(config.cluster.secret !== undefined && {
        peer: { secret: config.cluster.secret, address },
      }),
      metrics,
      spans,
    });
    return { core, store, events, keys, app, agents, metrics, spans };
  } catch (error) {
    await keys?.close();
    await events?.close();
    await stores.close();
    throw error;
  }
}

/** Undefined if the site was not built; the daemon then serves no pages. */
async function builtSite(log: Log): Promise<string | undefined> {
  const directory = pagesDirectory("site");
  const isBuilt = await stat(directory).then(
    () => true,
    () => false,
  );
  if (isBuilt) return directory;
  log.warn({}, "The pages of /docs and /guide are not built. `npm run setup` builds them.");
  return undefined;
}

async function composeTokens(config: Config, log: Log): Promise<Tokens | undefined> {
  if (config.jwt === undefined) return undefined;
  const { source, ...options } = config.jwt;
  // Few daemons have an issuer, and what checks its tokens takes a while to load.
  const { Tokens: Implementation } = await import("./keys/tokens.ts");
  return new Implementation({ ...options, keys: await tokenKeys(source) }, config.quotas, log);
}

async function tokenKeys({ file, url, pem = "" }: NonNullable<Config["jwt"]>["source"]) {
  if (url !== undefined) return { kind: "url", url: new URL(url) } as const;
  if (file === undefined) return { kind: "pem", pem } as const;
  const { keySetOf } = await import("./keys/tokens.ts");
  try {
    return { kind: "set", keys: keySetOf(await readFile(file, "utf8")) } as const;
  } catch (cause) {
    throw new SandboxError(
      "INVALID_REQUEST",
      `${file} is not a JSON Web Key Set; jwt.jwks_file needs one with the issuer's public keys`,
      { cause },
    );
  }
}

/** Every daemon of a cluster accepts links signed by any of the others. */
async function previewKey({ cluster, dataDir }: Config): Promise<Buffer> {
  if (cluster.secret === undefined) return await ensurePreviewKey(dataDir);
  return createHmac("sha256", cluster.secret).update("previews").digest();
}

/** A daemon that takes a session over must be able to read its secrets. */
async function secretsKey({ cluster, dataDir }: Config): Promise<Buffer> {
  if (cluster.secret === undefined) return await ensureSecretsKey(dataDir);
  return createHmac("sha256", cluster.secret).update("secrets").digest();
}

async function composeNetworks(
  config: Config,
  apiKeys: readonly ApiKey[],
  log: EgressLog,
): Promise<SessionNetworks> {
  const { limits, secrets, caFile, nameServers, ...terms } = config.network;
  const ceilings = new Map(apiKeys.map(({ name, networkCeiling }) => [name, networkCeiling]));
  const clock = systemClock();
  return new SessionNetworks({
    terms,
    limits,
    ceilingOf: (owner) => ceilings.get(owner),
    log,
    clock,
    isOwnAddress: ownAddresses(() => clock.monotonicMs()),
    resolveName: nameResolver(nameServers),
    secrets: {
      box: new SecretBox(await secretsKey(config)),
      store: secrets,
      trusted: caFile === undefined ? [] : [await readFile(caFile, "utf8")],
    },
  });
}

/** Loads OpenTelemetry only if it is used. */
async function composeSpans(
  { telemetry: { otlp } }: Config,
  log: Logger,
  families: NonNullable<StartOptions["families"]>,
): Promise<StartedTelemetry | undefined> {
  if (otlp === undefined) return undefined;
  return await startTelemetry(otlp, {
    version: VERSION,
    families,
    isGlobal: false,
    onFailure: (reason) => log.warn({ reason }, "telemetry could not be sent"),
  });
}

/** Lets the first sessions of a daemon start from the pool. */
const IMPLIED_POOL_SIZE = 2;

function sessionSettings(config: Config, defaultImage: string): SessionSettings {
  const { profile } = config.defaults;
  const impliedPool = { image: defaultImage, profile, size: IMPLIED_POOL_SIZE, isImplied: true };
  return {
    defaultProfile: config.defaults.profile,
    allowRootProfile: config.allowRootProfile,
    defaultTtlMs: config.sessionTtlMs,
    maxLifetimeMs: config.maxSessionLifetimeMs,
    defaultLimits: config.defaults.limits,
    maxLimits: config.maxLimits,
    maxExecTimeoutMs: config.defaults.maxExecTimeoutMs,
    outputBudgetBytes: config.outputBudgetBytes,
    concurrentCreates: availableParallelism(),
    pool: config.pool ?? [impliedPool],
    maxPortConnections: config.preview.maxConnections,
    workspaceDisk: config.workspace,
    journal: {
      maxBytesPerOwner: config.journal.maxBytesPerKey,
      maxBytes: config.journal.maxBytes,
    },
    retentionMs: config.journal.retentionMs,
  };
}
