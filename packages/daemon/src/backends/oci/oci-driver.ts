/** Drives the launcher, which creates sandboxes on this machine with crun, runc or runsc. */
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, readdir, realpath, stat } from "node:fs/promises";
import { join } from "node:path";
import type { Duplex } from "node:stream";
import type {
  BackendCapabilities,
  BackendHealth,
  SandboxListing,
  SandboxSpec,
  SandboxStats,
  StorageUse,
  WorkspaceListing,
} from "../../ports/backend.ts";
import type { Log } from "../../ports/log.ts";
import type { RootfsStore } from "../../ports/image-store.ts";
import { deadSandbox } from "../container/container-backend.ts";
import type {
  AskSandbox,
  Container,
  ContainerDriver,
  FoundContainer,
  Measured,
} from "../container/container-driver.ts";
import type { Probe } from "../container/probe.ts";
import type { RuntimeKind } from "../container/runtime-versions.ts";
import { findTrustStore, MAX_BUNDLE_BYTES, trustFiles } from "../container/trust-store.ts";
import type { ImageNode, TrustFile } from "../container/trust-store.ts";
import { freeze, isFrozen, readUsage, thaw } from "./cgroups.ts";
import { CompiledSeccomp } from "./compiled-seccomp.ts";
import { createRequest } from "./create-request.ts";
import { diskUseOf } from "./disk-use.ts";
import { GVISOR_FLAGS } from "./config/gvisor.ts";
import { measureIsolation } from "./isolation.ts";
import { KernelFiles } from "./kernel-files.ts";
import { Launcher } from "./launcher.ts";
import type { LauncherCreate, LauncherIdentity } from "./launcher.ts";
import { relayToRunner } from "./runner-relay.ts";
import { RootfsFiles } from "./rootfs-files.ts";
import { dialRunner } from "./runner-socket.ts";
import { findRuntimes, pickRuntime, runtimeChecks, strongRuntime } from "./runtimes.ts";
import type { Runtime } from "./runtimes.ts";
import { handleOf, isAlive, isMissing, readRecord } from "./sandbox-record.ts";
import type { SandboxRecord } from "./sandbox-record.ts";
import { WorkspaceDisks } from "./workspace-disks.ts";

export interface OciDriverOptions {
  readonly dataDir: string;
  readonly images: RootfsStore;
  /** The two native programs, as absolute paths. */
  readonly launcher: string;
  readonly runner: string;
  /** Chosen by version when absent. */
  readonly runtime?: RuntimeKind;
  /** Runtimes in this directory take precedence over the system's. */
  readonly runtimeDir?: string;
  /** Whether sandboxes may use gVisor if it is not the default runtime; true when absent. */
  readonly allowStrong?: boolean;
  /** Shared by all daemons of the machine, so no two assign the same host ids. */
  readonly idsDir: string;
  /** The daemon's own hard limit of open files. */
  readonly maxOpenFiles: number;
  /** True on machines with only cgroup v2. */
  readonly cgroupNamespace: boolean;
  readonly log?: Log;
  /** Changes the request to the launcher; for tests that make it fail. */
  readonly adjustCreate?: (request: LauncherCreate) => LauncherCreate;
}

/** How soon the launcher must answer a ping, even on a busy machine. */
const READY_MS = 2_000;

/** A sandbox and the launcher's record of it. */
export interface OciContainer extends Container {
  readonly record: SandboxRecord;
}

export class OciDriver implements ContainerDriver<OciContainer> {
  readonly name = "oci";
  readonly capabilities: BackendCapabilities;
  readonly #options: OciDriverOptions;
  readonly #launcher: Launcher;
  readonly #runtime: Runtime;
  /** For sessions that request strong isolation. */
  readonly #strongRuntime: Runtime | undefined;
  readonly #cgroupParent: string;
  readonly #disks: WorkspaceDisks;
  readonly #seccomp = new CompiledSeccomp();
  /** The launcher's records never change, so each is read once. */
  readonly #records = new Map<string, SandboxRecord>();
  readonly #kernelFiles = new KernelFiles();

  private constructor(
    options: OciDriverOptions,
    runtimes: { readonly usual: Runtime; readonly strong: Runtime | undefined },
    cgroupParent: string,
  ) {
    this.#options = options;
    this.#launcher = new Launcher(options.launcher);
    this.#runtime = runtimes.usual;
    this.#strongRuntime = runtimes.strong;
    const isolations: BackendCapabilities["isolations"] =
      runtimes.usual.kind === "runsc"
        ? ["strong"]
        : ["standard", ...(runtimes.strong === undefined ? [] : (["strong"] as const))];
    this.capabilities = { isolations, network: false, pause: true, quota: true, snapshot: false };
    this.#cgroupParent = cgroupParent;
    this.#disks = new WorkspaceDisks(this.#launcher, {
      workspacesDir: join(options.dataDir, "workspaces"),
      sandboxesDir: join(options.dataDir, "sandboxes"),
      templatesDir: join(options.dataDir, "templates"),
    });
  }

  static async open(options: OciDriverOptions): Promise<OciDriver> {
    for (const name of ["", "sandboxes", "runtime", "templates", "workspaces"])
      await mkdir(join(options.dataDir, name), { recursive: true, mode: 0o700 });
    const dataDir = await realpath(options.dataDir);
    // Derived from the data directory: a daemon finds its own sandboxes and never another's.
    const instance = createHash("sha256").update(dataDir).digest("hex").slice(0, 12);
    const runtimes = await findRuntimes(options.runtimeDir);
    const usual = pickRuntime(runtimes, options.runtime);
    const strong = options.allowStrong === false ? undefined : strongRuntime(runtimes);
    const repaired = await new Launcher(options.launcher).repairDevices();
    if (repaired.length > 0)
      options.log?.warn(
        { devices: repaired },
        "device nodes of this machine belonged to a sandbox; returned them to root",
      );
    return new OciDriver({ ...options, dataDir }, { usual, strong }, `sandkasten-${instance}`);
  }

  /** Synchronous: in a burst of requests, an event loop turn takes long. */
  hasTraces(id: string): boolean {
    return existsSync(this.#stateDir(id));
  }

  async prepare(spec: SandboxSpec): Promise<() => Promise<OciContainer>> {
    const { dataDir, images, runner, maxOpenFiles, cgroupNamespace, adjustCreate } = this.#options;
    const runtime = this.#runtimeFor(spec);
    const rootfs = await images.rootfs(spec.image, spec.imageDigest);
    const request = createRequest({
      spec,
      identity: this.#identity(spec.id, runtime),
      rootfs,
      rootFiles: await trustedFiles(rootfs.path, spec),
      disks: this.#disks,
      templatesDir: join(dataDir, "templates"),
      runner,
      maxOpenFiles,
      cgroupNamespace,
    });
    return async () => {
      const record = await this.#seccomp.create(request, {
        launch: (complete) => this.#launcher.create(adjustCreate?.(complete) ?? complete),
        remove: (id) => this.remove(id),
      });
      this.#records.set(spec.id, record);
      return { record, handle: handleOf(record) };
    };
  }

  #forget(id: string): void {
    this.#records.delete(id);
    this.#kernelFiles.forget(id);
  }

  async remove(id: string): Promise<void> {
    this.#forget(id);
    // The launcher's own notes name the runtime; this one is used only if they are lost.
    await this.#launcher.destroy(this.#identity(id));
  }

  async find(id: string): Promise<FoundContainer<OciContainer>> {
    const record = this.#records.get(id) ?? (await readRecord(this.#stateDir(id)));
    if (record === undefined) return { state: "absent" };
    const read = this.#kernelFiles.readerIfOpen(id);
    if (!isAlive(record, read)) {
      this.#forget(id);
      // Another process may have destroyed it since its record was read.
      if (!this.hasTraces(id)) return { state: "absent" };
      return { state: "dead", outOfMemory: ranOutOfMemory(record) };
    }
    this.#records.set(id, record);
    const container = { record, handle: handleOf(record) };
    return { state: isFrozen(record.cgroups, read) ? "paused" : "running", container };
  }

  async connect({ record }: OciContainer, signal: AbortSignal): Promise<Duplex> {
    // By the runtime that created the sandbox, which may differ from the one chosen now.
    if (record.runtime.kind !== "runsc") return await dialRunner(this.#stateDir(record.id), signal);
    // A relay starts even without a sandbox, so check first that it is alive.
    if (!isAlive(record)) throw deadSandbox(record.id, ranOutOfMemory(record));
    return await relayToRunner(record.runtime, record.id, signal);
  }

  async pause({ record }: OciContainer): Promise<void> {
    await freeze(record.cgroups);
  }

  async resume({ record }: OciContainer): Promise<void> {
    await thaw(record.cgroups);
  }

  async list(): Promise<SandboxListing[]> {
    const found = await this.#launcher.list({
      sandboxes_dir: join(this.#options.dataDir, "sandboxes"),
      ids_dir: this.#options.idsDir,
      cgroup_parent: this.#cgroupParent,
    });
    return found.map(({ id, state }) => ({ id, state: state === "partial" ? "dead" : state }));
  }

  async usage({ record }: OciContainer, ask: AskSandbox | undefined): Promise<SandboxStats> {
    const { limits } = record.meta;
    // The host sees neither the disk of a gVisor sandbox nor how its memory is divided.
    const isSeenFromHere = record.runtime.kind !== "runsc";
    const read = this.#kernelFiles.readerFor(record.id);
    const seenBytes = isSeenFromHere ? diskUseOf(record, read) : undefined;
    const inside = seenBytes === undefined ? await ask?.((channel) => channel.ping()) : undefined;
    const usedBytes = seenBytes ?? inside?.diskUsedBytes;
    return {
      ...readUsage(record.cgroups, read),
      // Outside, gVisor's own threads and memory are counted together with code's.
      ...(!isSeenFromHere && {
        memoryLimitBytes: limits.memoryBytes,
        pidsLimit: limits.pids,
        ...(inside?.memoryBytes !== undefined && { memoryBytes: inside.memoryBytes }),
        ...(inside?.pids !== undefined && { pids: inside.pids }),
        ...(inside?.oomKills !== undefined && { oomKills: inside.oomKills }),
      }),
      diskBytes:
        record.workspace === undefined && usedBytes !== undefined
          ? usedBytes
          : await this.#writtenBytes(record),
      diskLimitBytes: limits.diskBytes,
    };
  }

  async measure({ record }: OciContainer, inside: Probe): Promise<Measured> {
    return await measureIsolation(record, await this.#runtimeOf(record), inside);
  }

  async health(): Promise<BackendHealth> {
    const checks: BackendHealth["checks"][number][] = (await this.#launcher.check()).map(
      ({ name, ok, detail, remedy }) => ({
        name,
        ok,
        detail,
        ...(remedy !== undefined && { remedy }),
      }),
    );
    const runtimes = await findRuntimes(this.#options.runtimeDir);
    checks.push(...runtimeChecks(runtimes, this.#runtime.kind));
    // Required for sandboxes; without the others, isolation is only less strict.
    const needed = new Set(["user_namespace", "private_mounts"]);
    return { usable: checks.every((check) => check.ok || !needed.has(check.name)), checks };
  }

  async storage(): Promise<StorageUse[]> {
    const directory = join(this.#options.dataDir, "templates");
    const images = (await readdir(directory)).filter((name) => name.endsWith(".img"));
    const found = await Promise.all(
      // One may be pruned meanwhile.
      images.map((name) => stat(join(directory, name)).catch(ignoreMissing)),
    );
    const files = found.filter((image) => image !== undefined);
    const bytes = files.reduce((sum, { blocks }) => sum + blocks * 512, 0);
    return [{ kind: "disk_templates", files: files.length, bytes }];
  }

  /** Sandboxes can be created as long as the launcher responds. */
  async ready(): Promise<boolean> {
    return await this.#launcher.responds(READY_MS);
  }

  /** There is no engine between this backend and its sandboxes. */
  async reachable(): Promise<boolean> {
    return await Promise.resolve(true);
  }

  async listWorkspaces(): Promise<WorkspaceListing[]> {
    return await this.#disks.list();
  }

  async destroyWorkspace(id: string): Promise<void> {
    await this.#disks.destroy(id);
  }

  #runtimeFor(spec: SandboxSpec): Runtime {
    return spec.isolation === "strong" ? (this.#strongRuntime ?? this.#runtime) : this.#runtime;
  }

  #identity(id: string, runtime = this.#runtime): LauncherIdentity {
    return {
      id,
      state_dir: this.#stateDir(id),
      ids_dir: this.#options.idsDir,
      cgroup_parent: this.#cgroupParent,
      runtime: {
        kind: runtime.kind,
        path: runtime.path,
        // gVisor leaves more than the sandbox's state there, so the whole directory is removed.
        ...(runtime.kind === "runsc"
          ? { root: join(this.#stateDir(id), "runtime"), args: GVISOR_FLAGS }
          : { root: join(this.#options.dataDir, "runtime") }),
      },
    };
  }

  /** The runtime that a sandbox was created with. */
  async #runtimeOf(record: SandboxRecord): Promise<Runtime> {
    const { kind, path } = record.runtime;
    const found = (await findRuntimes(this.#options.runtimeDir)).find(
      (runtime) => runtime.kind === kind,
    );
    return found ?? { kind, path, version: "unknown", current: false };
  }

  #stateDir(id: string): string {
    return join(this.#options.dataDir, "sandboxes", id);
  }

  /**
   * Bytes written to the sandbox's own disk, for a paused sandbox that only itself could tell its
   * disk usage, and for one whose `/workspace` is the disk of a persistent workspace.
   */
  async #writtenBytes({ id }: SandboxRecord): Promise<number> {
    try {
      const { blocks } = await stat(join(this.#stateDir(id), "disk.img"));
      return blocks * 512;
    } catch (error) {
      if (isMissing(error)) return 0;
      throw error;
    }
  }
}

/**
 * Whether the OOM killer has ended a sandbox. Outside, gVisor is one unit: a kill in its cgroup
 * ends all of it. Otherwise the kernel kills processes of code, which does not imply the end of PID
 * 1.
 */
function ranOutOfMemory({ runtime, cgroups }: SandboxRecord): boolean {
  return runtime.kind === "runsc" && readUsage(cgroups).oomKills > 0;
}

function ignoreMissing(error: unknown): undefined {
  if (!isMissing(error)) throw error;
}

/** What makes the programs of a sandbox trust the certificate of its spec. */
async function trustedFiles(
  rootfs: string,
  { trustedCertificate, profile }: SandboxSpec,
): Promise<readonly TrustFile[]> {
  if (trustedCertificate === undefined) return [];
  const files = new RootfsFiles(rootfs);
  const lookAt = (path: string): Promise<ImageNode> => Promise.resolve(files.lookAt(path));
  const store = await findTrustStore(lookAt, trustedCertificate);
  const readText = (path: string): Promise<string | undefined> =>
    Promise.resolve(files.readText(path, MAX_BUNDLE_BYTES));
  return await trustFiles(store, readText, trustedCertificate, profile);
}
