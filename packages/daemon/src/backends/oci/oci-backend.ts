/** The embedded backend: sandboxes on this machine, made by the launcher with crun, runc or runsc. */
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { access, mkdir, readdir, realpath, stat } from "node:fs/promises";
import { join } from "node:path";
import { SandboxError } from "@sandkasten/protocol";
import { RunnerChannel } from "../../channel/runner-channel.ts";
import type {
  Backend,
  BackendHealth,
  IsolationReport,
  SandboxHandle,
  SandboxListing,
  SandboxSpec,
  SandboxStats,
  StorageUse,
  WorkspaceListing,
} from "../../ports/backend.ts";
import type { Channel, ChannelHealth } from "../../ports/channel.ts";
import type { Log } from "../../ports/log.ts";
import type { RootfsStore } from "../../ports/image-store.ts";
import { throwIfCancelled } from "../container/cancelled.ts";
import { checkLimits } from "../container/limits.ts";
import type { RuntimeKind } from "../container/runtime-versions.ts";
import { checkId } from "../container/sandbox-ids.ts";
import { Turns } from "../container/turns.ts";
import { freeze, isFrozen, readUsage, thaw } from "./cgroups.ts";
import { buildOciConfig } from "./config/build-oci-config.ts";
import { fitForGvisor, GVISOR_FLAGS, hostLimitsForGvisor } from "./config/gvisor.ts";
import { measureIsolation } from "./isolation.ts";
import { Launcher } from "./launcher.ts";
import type { LauncherCreate, LauncherIdentity } from "./launcher.ts";
import { relayToRunner } from "./runner-relay.ts";
import { dialRunner } from "./runner-socket.ts";
import {
  findRuntimes,
  findStrongRuntime,
  OLDEST_GVISOR,
  pickRuntime,
  runtimeChecks,
} from "./runtimes.ts";
import type { Runtime } from "./runtimes.ts";
import { handleOf, isAlive, isMissing, readRecord } from "./sandbox-record.ts";
import type { SandboxRecord } from "./sandbox-record.ts";
import { Workspaces } from "./workspaces.ts";

export interface OciBackendOptions {
  readonly dataDir: string;
  readonly images: RootfsStore;
  /** The two native programs, by absolute path. */
  readonly launcher: string;
  readonly runner: string;
  /** Picked by version when absent. */
  readonly runtime?: RuntimeKind;
  /** Runtimes in here hide the system's. */
  readonly runtimeDir?: string;
  /** Whether sandboxes may have gVisor where it is not the usual runtime; true when absent. */
  readonly allowStrong?: boolean;
  /** Shared by all daemons of the machine, so that no two give out the same host ids. */
  readonly idsDir: string;
  /** The daemon's own hard limit of open files. */
  readonly maxOpenFiles: number;
  /** True on machines with cgroup v2 alone. */
  readonly cgroupNamespace: boolean;
  readonly log?: Log;
  /** Changes what the launcher is asked to do; for tests that make it fail. */
  readonly adjustCreate?: (request: LauncherCreate) => LauncherCreate;
}

/** How soon the launcher answers a ping, on however busy a machine. */
const READY_MS = 2_000;

async function exists(path: string): Promise<boolean> {
  return await access(path).then(
    () => true,
    () => false,
  );
}

export class OciBackend implements Backend {
  readonly name = "oci";
  readonly givesNetwork = false;
  readonly isolations: Backend["isolations"];
  readonly #options: OciBackendOptions;
  readonly #launcher: Launcher;
  readonly #runtime: Runtime;
  /** For sessions that ask for strong isolation. */
  readonly #strongRuntime: Runtime | undefined;
  readonly #cgroupParent: string;
  readonly #workspaces: Workspaces;
  /** For channels, which cannot ask the disk whether silence is to be expected. */
  readonly #paused = new Set<string>();
  readonly #turns = new Turns();
  /** Creates under way, to be given up when their sandbox is destroyed. */
  readonly #creating = new Map<string, AbortController>();
  #probes = 0;

  private constructor(
    options: OciBackendOptions,
    runtimes: { readonly usual: Runtime; readonly strong: Runtime | undefined },
    cgroupParent: string,
  ) {
    this.#options = options;
    this.#launcher = new Launcher(options.launcher);
    this.#runtime = runtimes.usual;
    this.#strongRuntime = runtimes.strong;
    this.isolations =
      runtimes.usual.kind === "runsc"
        ? ["strong"]
        : ["standard", ...(runtimes.strong === undefined ? [] : (["strong"] as const))];
    this.#cgroupParent = cgroupParent;
    this.#workspaces = new Workspaces(this.#launcher, {
      workspacesDir: join(options.dataDir, "workspaces"),
      sandboxesDir: join(options.dataDir, "sandboxes"),
      templatesDir: join(options.dataDir, "templates"),
    });
  }

  static async open(options: OciBackendOptions): Promise<OciBackend> {
    for (const name of ["", "sandboxes", "runtime", "templates", "workspaces"])
      await mkdir(join(options.dataDir, name), { recursive: true, mode: 0o700 });
    const dataDir = await realpath(options.dataDir);
    // Named after the data directory: a daemon finds its own sandboxes and never another's.
    const instance = createHash("sha256").update(dataDir).digest("hex").slice(0, 12);
    const usual = await pickRuntime(options.runtime, options.runtimeDir);
    const strong =
      options.allowStrong === false ? undefined : await findStrongRuntime(options.runtimeDir);
    const repaired = await new Launcher(options.launcher).repairDevices();
    if (repaired.length > 0)
      options.log?.warn(
        { devices: repaired },
        "device nodes of this machine belonged to a sandbox; they are root's again",
      );
    return new OciBackend({ ...options, dataDir }, { usual, strong }, `sandkasten-${instance}`);
  }

  async create(spec: SandboxSpec, signal?: AbortSignal): Promise<SandboxHandle> {
    checkId("sandbox", spec.id);
    checkLimits(spec.limits);
    if (spec.network === "full")
      throw new SandboxError("UNSUPPORTED", "the backend oci has no network to give");
    for (const workspace of [spec.workspace ?? [], spec.workspaces ?? []].flat())
      this.#workspaces.check(workspace);
    throwIfCancelled(signal);
    return await this.#turns.take(spec.id, async () => {
      const destroyed = new AbortController();
      this.#creating.set(spec.id, destroyed);
      try {
        const given = signal === undefined ? [] : [signal];
        return await this.#create(spec, AbortSignal.any([destroyed.signal, ...given]));
      } finally {
        this.#creating.delete(spec.id);
      }
    });
  }

  /** In its turn: nothing else happens to this id meanwhile. */
  async #create(spec: SandboxSpec, signal: AbortSignal): Promise<SandboxHandle> {
    // Without a turn of the loop, which is long in a burst of requests.
    if (existsSync(this.#stateDir(spec.id)))
      throw new SandboxError("CONFLICT", `the sandbox ${spec.id} exists already`);
    const request = await this.#createRequest(spec);
    throwIfCancelled(signal);
    try {
      const record = await this.#launcher.create(this.#options.adjustCreate?.(request) ?? request);
      throwIfCancelled(signal);
      this.#paused.delete(spec.id);
      const channel = this.#channel(record);
      await channel.ping().finally(() => channel.close());
      throwIfCancelled(signal);
      return handleOf(record);
    } catch (error) {
      // A launcher that was killed, or a sandbox that does not answer, leaves things behind.
      await this.#destroy(spec.id);
      throw error;
    }
  }

  async adopt(id: string): Promise<SandboxHandle> {
    return handleOf(await this.#living(id));
  }

  async open(id: string): Promise<Channel> {
    return this.#channel(await this.#living(id));
  }

  /** By the runtime that the sandbox was made with, which may not be the one that is picked now. */
  #channel({ id, runtime }: SandboxRecord): RunnerChannel {
    return new RunnerChannel({
      connect: async (signal) => {
        if (runtime.kind !== "runsc") return await dialRunner(this.#stateDir(id), signal);
        // A relay starts whether or not there is a sandbox; only a dead one refuses for good.
        await this.#living(id);
        return await relayToRunner(runtime, id, signal);
      },
      silenceExpected: () => this.#paused.has(id),
    });
  }

  async pause(id: string): Promise<void> {
    checkId("sandbox", id);
    await this.#turns.take(id, async () => {
      const record = await this.#living(id);
      this.#paused.add(id);
      try {
        await freeze(record.cgroups);
        await this.#living(id);
      } catch (error) {
        this.#paused.delete(id);
        throw error;
      }
    });
  }

  async resume(id: string): Promise<void> {
    checkId("sandbox", id);
    await this.#turns.take(id, async () => {
      await thaw((await this.#living(id)).cgroups);
      this.#paused.delete(id);
    });
  }

  async destroy(id: string): Promise<void> {
    checkId("sandbox", id);
    this.#creating.get(id)?.abort(new Error("the sandbox was destroyed while it was made"));
    await this.#turns.take(id, () => this.#destroy(id));
  }

  async #destroy(id: string): Promise<void> {
    // The runtime is the one in the launcher's own notes; ours is only for a sandbox without any.
    const noted = await exists(join(this.#stateDir(id), "intent.json"));
    const { runtime, ...request } = this.#identity(id);
    await this.#launcher.destroy({ ...request, ...(!noted && { runtime }) });
    this.#paused.delete(id);
  }

  async list(): Promise<SandboxListing[]> {
    const found = await this.#launcher.list({
      sandboxes_dir: join(this.#options.dataDir, "sandboxes"),
      ids_dir: this.#options.idsDir,
      cgroup_parent: this.#cgroupParent,
    });
    return found.map(({ id, state }) => ({ id, state: state === "partial" ? "dead" : state }));
  }

  async stats(id: string): Promise<SandboxStats> {
    const record = await this.#living(id);
    const { limits } = record.meta;
    const inside = await this.#askInside(record);
    return {
      ...(await readUsage(record.cgroups)),
      // Outside, gVisor's own threads and memory count with those of code.
      ...(record.runtime.kind === "runsc" && {
        memoryLimitBytes: limits.memoryBytes,
        pidsLimit: limits.pids,
        ...(inside?.memoryBytes !== undefined && { memoryBytes: inside.memoryBytes }),
        ...(inside?.pids !== undefined && { pids: inside.pids }),
        ...(inside?.oomKills !== undefined && { oomKills: inside.oomKills }),
      }),
      diskBytes: await this.#diskBytes(record, inside),
      diskLimitBytes: limits.diskBytes,
    };
  }

  async isolation(id: string): Promise<IsolationReport> {
    const record = await this.#living(id);
    if (this.#paused.has(id))
      throw new SandboxError("CONFLICT", `the sandbox ${id} is paused; resume it to look inside`);
    this.#probes += 1;
    const execId = `probe-${process.pid}-${this.#probes}`;
    const channel = this.#channel(record);
    try {
      return await measureIsolation(record, await this.#runtimeOf(record), channel, execId);
    } finally {
      channel.close();
    }
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
    // Sandboxes need these; what else is missing is only less well enforced.
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

  /** A sandbox can be made as long as the launcher beside the daemon answers. */
  async ready(): Promise<boolean> {
    return await this.#launcher.answers(READY_MS);
  }

  /** There is nothing between this backend and its sandboxes. */
  async reachable(): Promise<boolean> {
    return await Promise.resolve(true);
  }

  async listWorkspaces(): Promise<WorkspaceListing[]> {
    return await this.#workspaces.list();
  }

  async destroyWorkspace(id: string): Promise<void> {
    await this.#workspaces.destroy(id);
  }

  async #createRequest(spec: SandboxSpec): Promise<LauncherCreate> {
    const { dataDir, idsDir, runner } = this.#options;
    const rootfs = await this.#options.images.rootfs(spec.image, spec.imageDigest);
    const { limits, workspace, workspaces = [] } = spec;
    const runtime = this.#runtimeFor(spec);
    const inGvisor = runtime.kind === "runsc";
    const held = inGvisor ? hostLimitsForGvisor(limits) : limits;
    const config = buildOciConfig({
      profile: spec.profile,
      memoryBytes: limits.memoryBytes,
      imageEnv: rootfs.env,
      env: spec.env,
      // The launcher mounts these itself, before the runtime starts.
      binds: [],
      architecture: process.arch,
      cgroupNamespace: this.#options.cgroupNamespace,
      transport: inGvisor ? "relay" : "socket",
      maxOpenFiles: this.#options.maxOpenFiles,
    });
    return {
      ...this.#identity(spec.id, runtime),
      ids_dir: idsDir,
      rootfs: { path: rootfs.path, binds: rootfs.binds, writable: spec.profile === "root" },
      runner,
      disk: {
        bytes: limits.diskBytes,
        inodes: limits.diskInodes,
        templates_dir: join(dataDir, "templates"),
      },
      ...(workspace !== undefined && { workspace: this.#workspaces.request(workspace) }),
      workspaces: workspaces.map((further) => ({
        workspace: this.#workspaces.request(further),
        path: further.path,
        read_only: further.readOnly,
      })),
      limits: {
        memory_bytes: held.memoryBytes,
        cpu_millicores: held.cpuMillicores,
        pids: held.pids,
      },
      config: inGvisor ? fitForGvisor(config, limits) : config,
      meta: {
        image: spec.image,
        image_digest: rootfs.digest,
        profile: spec.profile,
        limits,
      },
    };
  }

  #runtimeFor(spec: SandboxSpec): Runtime {
    if (spec.isolation !== "strong" || this.#runtime.kind === "runsc") return this.#runtime;
    if (this.#strongRuntime !== undefined) return this.#strongRuntime;
    throw new SandboxError(
      "UNSUPPORTED",
      `strong isolation needs gVisor of ${OLDEST_GVISOR} or later on this machine; ask for standard isolation, or install runsc`,
    );
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
        // gVisor leaves more behind there than the state of the sandbox, so that goes as a whole.
        ...(runtime.kind === "runsc"
          ? { root: join(this.#stateDir(id), "runtime"), args: GVISOR_FLAGS }
          : { root: join(this.#options.dataDir, "runtime") }),
      },
    };
  }

  /** What is known of the runtime that a sandbox was made with. */
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

  async #living(id: string): Promise<SandboxRecord> {
    checkId("sandbox", id);
    const record = await readRecord(this.#stateDir(id));
    if (record === undefined)
      throw new SandboxError("SANDBOX_NOT_FOUND", `there is no sandbox ${id}`);
    const [alive, frozen] = await Promise.all([isAlive(record), isFrozen(record.cgroups)]);
    if (alive) {
      // Somebody else may have paused or resumed it.
      if (frozen) this.#paused.add(id);
      else this.#paused.delete(id);
      return record;
    }
    const outOfMemory = await ranOutOfMemory(record);
    throw new SandboxError(
      "SANDBOX_UNREACHABLE",
      `the sandbox ${id} has died${outOfMemory ? ", because it ran out of memory" : ""}; destroy it and make a new one`,
      { details: { out_of_memory: outOfMemory } },
    );
  }

  /** A paused sandbox says nothing. */
  async #askInside(record: SandboxRecord): Promise<ChannelHealth | undefined> {
    if (this.#paused.has(record.id)) return undefined;
    const channel = this.#channel(record);
    return await channel.ping().finally(() => channel.close());
  }

  /**
   * What the sandbox's files take up on its own disk. A paused sandbox cannot say, and one with a
   * persistent workspace speaks of that one's disk; then it is what was written back.
   */
  async #diskBytes(record: SandboxRecord, inside: ChannelHealth | undefined): Promise<number> {
    if (record.workspace === undefined && inside?.diskUsedBytes !== undefined)
      return inside.diskUsedBytes;
    try {
      const { blocks } = await stat(join(this.#stateDir(record.id), "disk.img"));
      return blocks * 512;
    } catch (error) {
      if (isMissing(error)) return 0;
      throw error;
    }
  }
}

/**
 * Whether the kernel's killer has ended a sandbox. Outside, gVisor is one: what is killed in its cgroup
 * was all of it. Elsewhere the kernel kills processes of code, which says nothing of the end of PID 1.
 */
async function ranOutOfMemory({ runtime, cgroups }: SandboxRecord): Promise<boolean> {
  return runtime.kind === "runsc" && (await readUsage(cgroups)).oomKills > 0;
}

function ignoreMissing(error: unknown): undefined {
  if (!isMissing(error)) throw error;
}
