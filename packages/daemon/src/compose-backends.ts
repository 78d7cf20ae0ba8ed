/** Chooses and builds the backends, each with its images. */
import { randomBytes } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { SandboxError } from "@sandkasten/protocol";
import { placeOfEngine } from "./backends/docker/place-of-engine.ts";
import { openOciBackend } from "./backends/oci/oci-backend.ts";
import type { OciBackend, OciBackendOptions } from "./backends/oci/oci-backend.ts";
import { placeOfDirectory } from "./backends/oci/place-of-directory.ts";
import { BACKEND_NAMES } from "./config/backend-names.ts";
import type { BackendName } from "./config/backend-names.ts";
import type { Config } from "./config/config.ts";
import { exists } from "./exists.ts";
import { findProgram, isExecutable, STANDARD_PATH } from "./find-program.ts";
import { LocalImageStore } from "./images/local-image-store.ts";
import type { ImagePolicy } from "./images/local-image-store.ts";
import { nativeDirectory } from "./native-programs.ts";
import type { BackendHealth } from "./ports/backend.ts";
import type { RootfsStore } from "./ports/image-store.ts";
import type { Log } from "./ports/log.ts";
import { Providers } from "./sessions/providers.ts";
import type { Provider } from "./sessions/providers.ts";

export interface EmbeddedOptions {
  /** Where images and sandboxes are stored. */
  readonly dataDir: string;
  /** The OCI runtime to use; chosen by version when absent. */
  readonly runtime?: OciBackendOptions["runtime"];
  /** Runtimes in this directory are used instead of the system's. */
  readonly runtimeDir?: string;
  /** Whether sandboxes may ask for gVisor; true when absent. */
  readonly allowStrong?: boolean;
  readonly images?: ImagePolicy;
  /** Where the two native programs are installed. */
  readonly nativeDir?: string;
  /** Where the sandboxes of this machine register the host ids they use. */
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

const IDS_DIR = "/run/sandkasten/ids";

/**
 * The configured backends, the default one first. `instance` identifies the daemons whose sandboxes
 * they see; when absent, this daemon's data directory does.
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
  // Workspace file calls use it: it has everything the runner needs, without a download.
  return {
    backend,
    place: placeOfDirectory(await instanceId(config.dataDir)),
    images,
    defaultImage: config.defaultImage ?? "host",
    workspaceImage: "host",
  };
}

/**
 * The first backend that works, in list order: those without an engine are checked first, being
 * quicker.
 */
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

/** A backend and what it can do here; never rejects because something is missing. */
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

/** Sandboxes on a Docker engine. Its client is slow to load, so it is loaded on demand. */
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
    daemon: await instanceId(config.dataDir),
    runner: await requireProgram(join(nativeDirectory(), "runner")),
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

/** Distinguishes this daemon's containers from others on the same engine, independent of paths. */
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

/** Sandboxes on this machine, without a container engine. */
export async function composeEmbedded(options: EmbeddedOptions): Promise<Embedded> {
  const nativeDir = options.nativeDir ?? nativeDirectory();
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
    cgroupNamespace: await exists("/sys/fs/cgroup/cgroup.controllers"),
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
