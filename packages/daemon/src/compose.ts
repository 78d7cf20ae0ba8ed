/** Builds the concrete parts and joins them; the only place that does. */
import { access, constants, readFile, stat } from "node:fs/promises";
import { delimiter, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { SandboxError } from "@sandkasten/protocol";
import type { FastifyInstance } from "fastify";
import type { Logger } from "pino";
import { OciBackend } from "./backends/oci/oci-backend.ts";
import type { OciBackendOptions } from "./backends/oci/oci-backend.ts";
import type { ApiKey, Config } from "./config/config.ts";
import { buildHttpApp } from "./http/build-http-app.ts";
import { LocalImageStore } from "./images/local-image-store.ts";
import type { ImagePolicy } from "./images/local-image-store.ts";
import { FileExecJournal } from "./journal/file-exec-journal.ts";
import type { ImageStore } from "./ports/image-store.ts";
import type { SessionStore } from "./ports/session-store.ts";
import { SessionCore } from "./sessions/core.ts";
import type { SessionSettings } from "./sessions/settings.ts";
import { SqliteSessionStore } from "./store/sqlite-session-store.ts";
import { systemClock } from "./system-clock.ts";
import { VERSION } from "./version.ts";

export interface EmbeddedOptions {
  /** Where images and sandboxes are kept. */
  readonly dataDir: string;
  /** Which OCI runtime to use; picked by version when absent. */
  readonly runtime?: "crun" | "runc" | "runsc";
  readonly images?: ImagePolicy;
  /** Where the two native programs are. */
  readonly nativeDir?: string;
  /** Where the machine's sandboxes note the host ids they hold. */
  readonly idsDir?: string;
  /** For tests that make the launcher fail. */
  readonly adjustCreate?: OciBackendOptions["adjustCreate"];
}

/** The embedded backend and its images. */
export interface Embedded {
  readonly backend: OciBackend;
  readonly images: ImageStore;
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
  const { backend, images } = await composeEmbedded(embeddedOptions(config));
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
    const core = new SessionCore({ backend, images, store, journal, clock, log, settings });
    const callers = apiKeys.map(({ key, name: owner, ...quotas }) => ({
      key,
      caller: { owner, ...quotas },
    }));
    const app = await buildHttpApp({
      services: core,
      images,
      callers,
      log,
      version: VERSION,
      backend: backend.name,
      limits: config.http,
      allowedHosts: [config.listen.host, ...config.http.allowedHosts],
      allowedOrigins: config.http.allowedOrigins,
      uploadDir: join(config.dataDir, "uploads"),
    });
    return { core, store, app };
  } catch (error) {
    store.close();
    throw error;
  }
}

export function embeddedOptions(config: Config): EmbeddedOptions {
  const { dataDir, images, runtime } = config;
  return { dataDir, images, ...(runtime !== "auto" && { runtime }) };
}

function sessionSettings(config: Config): SessionSettings {
  return {
    defaultImage: config.defaultImage,
    defaultProfile: config.defaults.profile,
    allowRootProfile: config.allowRootProfile,
    defaultTtlMs: config.sessionTtlMs,
    maxLifetimeMs: config.maxSessionLifetimeMs,
    defaultLimits: config.defaults.limits,
    maxLimits: config.maxLimits,
    maxExecTimeoutMs: config.defaults.maxExecTimeoutMs,
    outputBudgetBytes: config.outputBudgetBytes,
    pool: config.pool,
    workspaceDisk: config.workspace,
    // It has all that the runner needs, and is there without a download.
    workspaceImage: "host",
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
      skopeo: (await findProgram("skopeo")) ?? "skopeo",
      xz: (await findProgram("xz")) ?? "xz",
      sync: (await findProgram("sync")) ?? "sync",
      env: { PATH: TOOL_PATH },
    },
    nowMs: () => Date.now(),
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
