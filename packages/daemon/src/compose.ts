/** Builds the concrete parts and joins them; the only place that does. */
import { createHmac, randomBytes } from "node:crypto";
import { readFile, stat, writeFile } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { SandboxError } from "@sandkasten/protocol";
import { startTelemetry } from "@sandkasten/telemetry";
import type { StartedTelemetry, StartOptions } from "@sandkasten/telemetry";
import type { FastifyInstance } from "fastify";
import type { Logger } from "pino";
import { openOciBackend } from "./backends/oci/oci-backend.ts";
import type { OciBackend, OciBackendOptions } from "./backends/oci/oci-backend.ts";
import { BACKEND_NAMES } from "./config/backend-names.ts";
import type { BackendName } from "./config/backend-names.ts";
import type { ApiKey, Config } from "./config/config.ts";
import { ensureSecretsKey } from "./config/ensure-secrets-key.ts";
import { ensurePreviewKey } from "./config/ensure-preview-key.ts";
import { EventHub } from "./events/event-hub.ts";
import { eventLines } from "./events/event-lines.ts";
import { buildHttpApp } from "./surfaces/build-http-app.ts";
import { StoredKeys } from "./keys/stored-keys.ts";
import { keySetOf, Tokens } from "./keys/tokens.ts";
import { findProgram, isExecutable, STANDARD_PATH } from "./find-program.ts";
import { LocalImageStore } from "./images/local-image-store.ts";
import type { ImagePolicy } from "./images/local-image-store.ts";
import { FileExecJournal } from "./journal/file-exec-journal.ts";
import type { ExecJournal } from "./ports/exec-journal.ts";
import { FileEgressLog } from "./network/file-egress-log.ts";
import { nameResolver } from "./network/name-resolver.ts";
import { ownAddresses } from "./network/own-addresses.ts";
import { SecretBox } from "./network/secret-box.ts";
import { SessionNetworks } from "./network/session-networks.ts";
import type { BackendHealth } from "./ports/backend.ts";
import type { EgressLog } from "./ports/egress-log.ts";
import type { RootfsStore } from "./ports/image-store.ts";
import type { Log } from "./ports/log.ts";
import type { SessionStore } from "./ports/session-store.ts";
import { placeOfDirectory, placeOfEngine } from "./place.ts";
import { SessionCore } from "./sessions/core.ts";
import { Providers } from "./sessions/providers.ts";
import type { Provider } from "./sessions/providers.ts";
import type { SessionSettings } from "./sessions/settings.ts";
import { SqliteEventLog } from "./store/sqlite/sqlite-event-log.ts";
import { SqliteKeyStore } from "./store/sqlite/sqlite-key-store.ts";
import { SqliteSessionStore } from "./store/sqlite/sqlite-session-store.ts";
import { systemClock } from "./system-clock.ts";
import { DaemonMetrics } from "./telemetry/daemon-metrics.ts";
import { DaemonTelemetry } from "./telemetry/daemon-telemetry.ts";
import { VERSION } from "./version.ts";

export interface EmbeddedOptions {
  /** Where images and sandboxes are kept. */
  readonly dataDir: string;
  /** Which OCI runtime to use; picked by version when absent. */
  readonly runtime?: "crun" | "runc" | "runsc";
  /** Runtimes in here are used instead of the system's. */
  readonly runtimeDir?: string;
  /** Whether sandboxes may ask for gVisor; true when absent. */
  readonly allowStrong?: boolean;
  readonly images?: ImagePolicy;
  /** Where the two native programs are. */
  readonly nativeDir?: string;
  /** Where the machine's sandboxes note the host ids they hold. */
  readonly idsDir?: string;
  readonly log?: Log;
  /** For tests that make the launcher fail. */
  readonly adjustCreate?: OciBackendOptions["adjustCreate"];
}

/** The embedded backend and its images. */
export interface Embedded {
  readonly backend: OciBackend;
  readonly images: RootfsStore;
}

const NATIVE_DIR = fileURLToPath(new URL("../../../native/bin", import.meta.url));
/** What `packages/site` builds; a daemon that has none serves no pages. */
const SITE_DIR = fileURLToPath(new URL("../../site/dist", import.meta.url));
const IDS_DIR = "/run/sandkasten/ids";

/** All that makes up a daemon, not yet started. */
export interface DaemonParts {
  readonly core: SessionCore;
  readonly store: SessionStore;
  readonly events: EventHub;
  readonly keys: StoredKeys;
  readonly app: FastifyInstance;
  readonly metrics: DaemonMetrics;
  /** Absent when nothing is sent to a collector. */
  readonly spans?: StartedTelemetry | undefined;
}

export async function composeDaemon(
  config: Config,
  apiKeys: readonly ApiKey[],
  log: Logger,
): Promise<DaemonParts> {
  const { store, journal, instance } = await composeStore(config, log);
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
    const telemetry = new DaemonTelemetry({ log, metrics: metrics.lifecycle, spans });
    const { address } = config.cluster;
    const eventLog = await SqliteEventLog.open({ path: join(config.dataDir, "events.db"), log });
    events = new EventHub({ eventLog, clock, log, ...config.events });
    events.onEvents(eventLines(log));
    const core = new SessionCore({
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
      store: await SqliteKeyStore.open(join(config.dataDir, "keys.db")),
      clock,
      log,
      events,
      quotas: config.quotas,
      configured: apiKeys.map(({ name: owner, scope }) => ({ owner, scope })),
    });
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
      ...(config.cluster.secret !== undefined && { peerSecret: config.cluster.secret }),
      metrics,
      spans,
    });
    return { core, store, events, keys, app, metrics, spans };
  } catch (error) {
    store.close();
    await keys?.close();
    await events?.close();
    throw error;
  }
}

async function builtSite(log: Log): Promise<string | undefined> {
  const isBuilt = await stat(SITE_DIR).then(
    () => true,
    () => false,
  );
  if (isBuilt) return SITE_DIR;
  log.warn({}, "The pages of /docs and /guide are not built. `npm run setup` builds them.");
  return undefined;
}

async function composeTokens(config: Config, log: Log): Promise<Tokens | undefined> {
  if (config.jwt === undefined) return undefined;
  const { source, ...options } = config.jwt;
  return new Tokens({ ...options, keys: await tokenKeys(source) }, config.quotas, log);
}

async function tokenKeys({ file, url, pem = "" }: NonNullable<Config["jwt"]>["source"]) {
  if (url !== undefined) return { kind: "url", url: new URL(url) } as const;
  if (file === undefined) return { kind: "pem", pem } as const;
  try {
    return { kind: "set", keys: keySetOf(await readFile(file, "utf8")) } as const;
  } catch (cause) {
    throw new SandboxError(
      "INVALID_REQUEST",
      `${file} is no JSON Web Key Set; jwt.jwks_file needs one with the issuer's public keys`,
      { cause },
    );
  }
}

/** What names the sandboxes of daemons that share a database; undefined when this daemon has its own. */
export async function sharedInstance({ databaseUrl: url }: Config): Promise<string | undefined> {
  if (url === undefined) return undefined;
  const { PostgresSessionStore } = await import("./store/postgres/postgres-session-store.ts");
  const store = await PostgresSessionStore.open({ url });
  await store.closed();
  return store.instance;
}

/** Links that one of several daemons signs are good for all of them. */
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

/** Loads OpenTelemetry only for those who use it. */
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

/** The store and the journal, and what names the daemons that share them. Postgres takes a while to load, so only who needs it loads it. */
async function composeStore(
  config: Config,
  log: Log,
): Promise<{
  readonly store: SessionStore;
  readonly journal: ExecJournal;
  readonly instance?: string;
}> {
  const { databaseUrl: url } = config;
  const { maxBytesPerExec, maxBytesPerSession } = config.journal;
  const limits = { maxBytesPerExec, maxBytesPerSession };
  if (url === undefined) {
    const directory = join(config.dataDir, "journal");
    const journal = await FileExecJournal.open({ directory, ...limits, log });
    return { store: await SqliteSessionStore.open({ path: config.dbPath, log }), journal };
  }
  const { PostgresSessionStore } = await import("./store/postgres/postgres-session-store.ts");
  const { PostgresExecJournal } = await import("./journal/postgres/postgres-exec-journal.ts");
  const store = await PostgresSessionStore.open({ url, log });
  const journal = new PostgresExecJournal({ database: store.database, ...limits });
  return { store, journal, instance: store.instance };
}

/**
 * The backends that the configuration names, the usual one first. `instance` names the daemons whose
 * sandboxes they see; when absent, this one's data directory does.
 */
export async function composeProviders(
  config: Config,
  log?: Log,
  instance?: string,
): Promise<Providers> {
  const usual =
    config.backend === "auto"
      ? await whatWorks(config, log, instance)
      : await composeProvider(config.backend, config, log, instance);
  const others = [...new Set(config.backends)].filter((name) => name !== usual.backend.name);
  return new Providers(
    usual,
    await Promise.all(others.map((name) => composeProvider(name, config, log, instance))),
  );
}

/** How each backend and its images are built. */
const COMPOSERS: Readonly<
  Record<BackendName, (config: Config, log?: Log, instance?: string) => Promise<Provider>>
> = {
  oci: composeOci,
  docker: composeDocker,
};

async function composeProvider(
  name: BackendName,
  config: Config,
  log?: Log,
  instance?: string,
): Promise<Provider> {
  return await COMPOSERS[name](config, log, instance);
}

async function composeOci(config: Config, log?: Log): Promise<Provider> {
  const { backend, images } = await composeEmbedded(embeddedOptions(config, log));
  // Workspaces: it has all that the runner needs, and is there without a download.
  return {
    backend,
    place: placeOfDirectory(await instanceId(config.dataDir)),
    images,
    defaultImage: config.defaultImage ?? "host",
    workspaceImage: "host",
  };
}

/** The first that works, in the order of their names' list: those without an engine are quicker. */
async function whatWorks(config: Config, log?: Log, instance?: string): Promise<Provider> {
  const failures: string[] = [];
  for (const name of BACKEND_NAMES) {
    const { health, provider } = await tryBackend(name, config, log, instance);
    if (health.usable && provider !== undefined) return provider;
    const failed = health.checks.find(({ ok }) => !ok);
    failures.push(`${name}: ${failed?.detail ?? "unknown"}`);
  }
  throw new SandboxError(
    "UNSUPPORTED",
    `No backend works here (${failures.join("; ")}). Run \`sandkasten doctor\` to see how to fix it.`,
  );
}

/** A backend and what it can do here; never rejects for what is missing. */
export async function tryBackend(
  name: BackendName,
  config: Config,
  log?: Log,
  instance?: string,
): Promise<{ readonly health: BackendHealth; readonly provider?: Provider }> {
  try {
    const provider = await composeProvider(name, config, log, instance);
    return { provider, health: await provider.backend.health() };
  } catch (error) {
    const detail = error instanceof Error ? error.message : String(error);
    return { health: { usable: false, checks: [{ name: "start", ok: false, detail }] } };
  }
}

/** Sandboxes on a Docker engine. Its client takes a while to load, so only who needs it loads it. */
async function composeDocker(config: Config, log?: Log, instance?: string): Promise<Provider> {
  const { openDockerBackend } = await import("./backends/docker/docker-backend.ts");
  const { DockerImageStore } = await import("./backends/docker/docker-image-store.ts");
  const { host, certPath, configDir, pullPolicy, workspace, network, runtime } = config.docker;
  const connection = {
    host,
    ...(certPath !== undefined && { tls: await readCertificates(certPath) }),
  };
  const images = new DockerImageStore({
    connection,
    policy: config.images,
    pullPolicy,
    dockerConfigDir: configDir,
    temporaryDir: config.dataDir,
    ...(log !== undefined && { log }),
  });
  const backend = await openDockerBackend({
    connection,
    instance: instance ?? (await instanceId(config.dataDir)),
    runner: await requireProgram(join(NATIVE_DIR, "runner")),
    images,
    workspace,
    ...(network !== undefined && { network }),
    ...(runtime !== undefined && { runtime }),
  });
  const defaultImage = config.defaultImage ?? "linux";
  const place = await placeOfEngine(host);
  return { backend, place, images, defaultImage, workspaceImage: defaultImage };
}

async function readCertificates(
  directory: string,
): Promise<{ readonly ca: string; readonly cert: string; readonly key: string }> {
  const read = async (name: string): Promise<string> => {
    try {
      return await readFile(join(directory, name), "utf8");
    } catch (cause) {
      throw new SandboxError(
        "INVALID_REQUEST",
        `${join(directory, name)} cannot be read; docker.cert_path needs ca.pem, cert.pem and key.pem`,
        { cause },
      );
    }
  };
  return { ca: await read("ca.pem"), cert: await read("cert.pem"), key: await read("key.pem") };
}

/** Tells this daemon's containers from those of others on the same engine, whatever their paths. */
async function instanceId(dataDir: string): Promise<string> {
  const path = join(dataDir, "instance-id");
  await writeFile(path, `${randomBytes(6).toString("hex")}\n`, { flag: "wx", mode: 0o600 }).catch(
    (error: NodeJS.ErrnoException) => {
      if (error.code !== "EEXIST") throw error;
    },
  );
  const id = (await readFile(path, "utf8")).trim();
  if (/^[0-9a-f]{12}$/u.test(id)) return id;
  throw new SandboxError(
    "CONFLICT",
    `${path} does not hold the id of this daemon; restore it, or remove it once no sandbox is left`,
  );
}

function embeddedOptions(config: Config, log?: Log): EmbeddedOptions {
  const { dataDir, images, runtime, runtimeDir, allowStrongIsolation } = config;
  return {
    dataDir,
    images,
    allowStrong: allowStrongIsolation,
    ...(runtime !== "auto" && { runtime }),
    ...(runtimeDir !== undefined && { runtimeDir }),
    ...(log !== undefined && { log }),
  };
}

/** So that the first sessions of a daemon need not wait for their sandboxes. */
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

/** Sandboxes on this machine, with nothing else running. */
export async function composeEmbedded(options: EmbeddedOptions): Promise<Embedded> {
  const nativeDir = options.nativeDir ?? NATIVE_DIR;
  const launcher = await requireProgram(join(nativeDir, "launcher"));
  const runner = await requireProgram(join(nativeDir, "runner"));
  const dataDir = resolve(options.dataDir);
  const images = await LocalImageStore.open({
    dataDir,
    policy: options.images ?? { allowedImages: [] },
    tools: {
      xz: (await findProgram("xz")) ?? "xz",
      sync: (await findProgram("sync")) ?? "sync",
      env: { PATH: STANDARD_PATH },
    },
    nowMs: () => Date.now(),
    ...(options.log !== undefined && { log: options.log }),
  });
  const backend = await openOciBackend({
    dataDir,
    images,
    launcher,
    runner,
    idsDir: options.idsDir ?? IDS_DIR,
    maxOpenFiles: await hardOpenFileLimit(),
    cgroupNamespace: await onlyUnifiedCgroups(),
    ...(options.runtime !== undefined && { runtime: options.runtime }),
    ...(options.log !== undefined && { log: options.log }),
    ...(options.runtimeDir !== undefined && { runtimeDir: options.runtimeDir }),
    ...(options.allowStrong !== undefined && { allowStrong: options.allowStrong }),
    ...(options.adjustCreate !== undefined && { adjustCreate: options.adjustCreate }),
  });
  return { backend, images };
}

async function requireProgram(path: string): Promise<string> {
  if (await isExecutable(path)) return path;
  throw new SandboxError(
    "UNSUPPORTED",
    `${path} is missing; build it with \`npm run setup\` in the project's folder`,
  );
}

async function hardOpenFileLimit(): Promise<number> {
  const limits = await readFile("/proc/self/limits", "utf8");
  const hard = /^Max open files\s+\S+\s+(\S+)/mu.exec(limits)?.[1] ?? "1024";
  return hard === "unlimited" ? 1_048_576 : Number(hard);
}

async function onlyUnifiedCgroups(): Promise<boolean> {
  return await stat("/sys/fs/cgroup/cgroup.controllers").then(
    () => true,
    () => false,
  );
}
