/** Builds the concrete parts and joins them; the only place that does. */
import { randomBytes } from "node:crypto";
import { access, constants, readFile, stat, writeFile } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { delimiter, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { SandboxError } from "@sandkasten/protocol";
import type { FastifyInstance } from "fastify";
import type { Logger } from "pino";
import { OciBackend } from "./backends/oci/oci-backend.ts";
import type { OciBackendOptions } from "./backends/oci/oci-backend.ts";
import type { ApiKey, Config } from "./config/config.ts";
import { ensurePreviewKey } from "./config/ensure-preview-key.ts";
import { buildHttpApp } from "./http/build-http-app.ts";
import { LocalImageStore } from "./images/local-image-store.ts";
import type { ImagePolicy } from "./images/local-image-store.ts";
import { FileExecJournal } from "./journal/file-exec-journal.ts";
import type { BackendHealth } from "./ports/backend.ts";
import type { RootfsStore } from "./ports/image-store.ts";
import type { Log } from "./ports/log.ts";
import type { SessionStore } from "./ports/session-store.ts";
import { SessionCore } from "./sessions/core.ts";
import { Providers } from "./sessions/providers.ts";
import type { Provider } from "./sessions/providers.ts";
import type { SessionSettings } from "./sessions/settings.ts";
import { SqliteSessionStore } from "./store/sqlite-session-store.ts";
import { systemClock } from "./system-clock.ts";
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
const IDS_DIR = "/run/sandkasten/ids";
/** What tools of the machine get to see of the environment. */
const TOOL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/** All that makes up a daemon, not yet started. */
export interface DaemonParts {
  readonly core: SessionCore;
  readonly store: SessionStore;
  readonly app: FastifyInstance;
}

export async function composeDaemon(
  config: Config,
  apiKeys: readonly ApiKey[],
  log: Logger,
): Promise<DaemonParts> {
  const providers = await composeProviders(config, log);
  const { maxBytesPerExec, maxBytesPerSession } = config.journal;
  const journal = await FileExecJournal.open({
    directory: join(config.dataDir, "journal"),
    maxBytesPerExec,
    maxBytesPerSession,
    log,
  });
  const store = await SqliteSessionStore.open({ path: config.dbPath, log });
  try {
    const settings = sessionSettings(config);
    const clock = systemClock();
    const core = new SessionCore({ providers, store, journal, clock, log, settings });
    const callers = apiKeys.map(({ key, name: owner, ...rest }) => ({
      key,
      caller: { owner, ...rest },
    }));
    const app = await buildHttpApp({
      services: core,
      callers,
      log,
      version: VERSION,
      backends: providers.names,
      limits: config.http,
      allowedHosts: [config.listen.host, ...config.http.allowedHosts],
      allowedOrigins: config.http.allowedOrigins,
      uploadDir: join(config.dataDir, "uploads"),
      preview: { ...config.preview, key: await ensurePreviewKey(config.dataDir) },
    });
    return { core, store, app };
  } catch (error) {
    store.close();
    throw error;
  }
}

/** The backends that the configuration names, the usual one first. */
export async function composeProviders(config: Config, log?: Log): Promise<Providers> {
  const usual =
    config.backend === "auto"
      ? await whatWorks(config, log)
      : await composeProvider(config.backend, config, log);
  const others = [...new Set(config.backends)].filter((name) => name !== usual.backend.name);
  return new Providers(
    usual,
    await Promise.all(others.map((name) => composeProvider(name, config, log))),
  );
}

export type BackendName = "oci" | "docker";

async function composeProvider(name: BackendName, config: Config, log?: Log): Promise<Provider> {
  if (name === "docker") return await composeDocker(config, log);
  const { backend, images } = await composeEmbedded(embeddedOptions(config, log));
  // Workspaces: it has all that the runner needs, and is there without a download.
  return { backend, images, defaultImage: config.defaultImage ?? "host", workspaceImage: "host" };
}

/** Sandboxes of this machine's own need no engine, and are quicker. */
async function whatWorks(config: Config, log?: Log): Promise<Provider> {
  const embedded = await tryBackend("oci", config, log);
  if (embedded.health.usable && embedded.provider !== undefined) return embedded.provider;
  const docker = await tryBackend("docker", config, log);
  if (docker.health.usable && docker.provider !== undefined) return docker.provider;
  const [failed] = embedded.health.checks.filter(({ ok }) => !ok);
  throw new SandboxError(
    "UNSUPPORTED",
    `no backend works here: sandboxes cannot be made on this machine (${failed?.detail ?? "unknown"}), ` +
      `and no Docker engine answers at ${config.docker.host}; \`sandkasten doctor\` says how to mend it`,
  );
}

/** A backend and what it can do here; never rejects for what is missing. */
export async function tryBackend(
  name: BackendName,
  config: Config,
  log?: Log,
): Promise<{ readonly health: BackendHealth; readonly provider?: Provider }> {
  try {
    const provider = await composeProvider(name, config, log);
    return { provider, health: await provider.backend.health() };
  } catch (error) {
    const detail = error instanceof Error ? error.message : String(error);
    return { health: { usable: false, checks: [{ name: "start", ok: false, detail }] } };
  }
}

/** Sandboxes on a Docker engine. Its client takes a while to load, so only who needs it loads it. */
async function composeDocker(config: Config, log?: Log): Promise<Provider> {
  const { DockerBackend } = await import("./backends/docker/docker-backend.ts");
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
  const backend = await DockerBackend.open({
    connection,
    instance: await instanceId(config.dataDir),
    runner: await requireProgram(join(NATIVE_DIR, "runner")),
    images,
    workspace,
    ...(network !== undefined && { network }),
    ...(runtime !== undefined && { runtime }),
  });
  const defaultImage = config.defaultImage ?? "linux";
  return { backend, images, defaultImage, workspaceImage: defaultImage };
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

function sessionSettings(config: Config): SessionSettings {
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
    pool: config.pool,
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
      env: { PATH: TOOL_PATH },
    },
    nowMs: () => Date.now(),
    ...(options.log !== undefined && { log: options.log }),
  });
  const backend = await OciBackend.open({
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
  try {
    await access(path, constants.X_OK);
    return path;
  } catch (cause) {
    throw new SandboxError(
      "UNSUPPORTED",
      `${path} is missing; build it with \`npm run setup\` in the project's folder`,
      { cause },
    );
  }
}

async function findProgram(name: string): Promise<string | undefined> {
  for (const directory of TOOL_PATH.split(delimiter)) {
    const path = join(directory, name);
    const found = await access(path, constants.X_OK).then(
      () => true,
      () => false,
    );
    if (found) return path;
  }
  return undefined;
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
