/** The embedded backend: sandboxes on this machine, made by the launcher with crun, runc or runsc. */
import { createHash } from "node:crypto";
import { access, mkdir, realpath, stat } from "node:fs/promises";
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
  WorkspaceListing,
} from "../../ports/backend.ts";
import type { Channel } from "../../ports/channel.ts";
import type { RootfsStore } from "../../ports/image-store.ts";
import { throwIfCancelled } from "../container/cancelled.ts";
import { checkLimits } from "../container/limits.ts";
import type { RuntimeKind } from "../container/runtime-versions.ts";
import { checkId } from "../container/sandbox-ids.ts";
import { Turns } from "../container/turns.ts";
import { freeze, isFrozen, readUsage, thaw } from "./cgroups.ts";
import { buildOciConfig } from "./config/build-oci-config.ts";
import { fitForGvisor } from "./config/gvisor.ts";
import type { OciConfig } from "./config/oci-spec.ts";
import { measureIsolation } from "./isolation.ts";
import { Launcher } from "./launcher.ts";
import type { LauncherCreate, LauncherIdentity } from "./launcher.ts";
import { relayToRunner } from "./runner-relay.ts";
import { dialRunner } from "./runner-socket.ts";
import { findRuntimes, pickRuntime } from "./runtimes.ts";
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
  /** Shared by all daemons of the machine, so that no two give out the same host ids. */
  readonly idsDir: string;
  /** The daemon's own hard limit of open files. */
  readonly maxOpenFiles: number;
  /** True on machines with cgroup v2 alone. */
  readonly cgroupNamespace: boolean;
  /** Changes what the launcher is asked to do; for tests that make it fail. */
  readonly adjustCreate?: (request: LauncherCreate) => LauncherCreate;
}

async function exists(path: string): Promise<boolean> {
  return await access(path).then(
    () => true,
    () => false,
  );
}

export class OciBackend implements Backend {
  readonly name = "oci";
  readonly givesNetwork = false;
  readonly #options: OciBackendOptions;
  readonly #launcher: Launcher;
  readonly #runtime: Runtime;
  readonly #cgroupParent: string;
  readonly #workspaces: Workspaces;
  /** For channels, which cannot ask the disk whether silence is to be expected. */
  readonly #paused = new Set<string>();
  readonly #turns = new Turns();
  /** Creates under way, to be given up when their sandbox is destroyed. */
  readonly #creating = new Map<string, AbortController>();
  #probes = 0;

  private constructor(options: OciBackendOptions, runtime: Runtime, cgroupParent: string) {
    this.#options = options;
    this.#launcher = new Launcher(options.launcher);
    this.#runtime = runtime;
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
    const runtime = await pickRuntime(options.runtime);
    return new OciBackend({ ...options, dataDir }, runtime, `sandkasten-${instance}`);
  }

  async create(spec: SandboxSpec, signal?: AbortSignal): Promise<SandboxHandle> {
    checkId("sandbox", spec.id);
    checkLimits(spec.limits);
    if (spec.network === "full")
      throw new SandboxError("UNSUPPORTED", "the backend oci has no network to give");
    if (spec.workspace !== undefined) this.#workspaces.check(spec.workspace);
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
    if (await exists(this.#stateDir(spec.id)))
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
      connect: (signal) =>
        runtime.kind === "runsc"
          ? relayToRunner(runtime, id, signal)
          : dialRunner(this.#stateDir(id), signal),
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
    const usage = await readUsage(record.cgroups);
    return {
      ...usage,
      diskBytes: await this.#diskBytes(record),
      diskLimitBytes: record.meta.limits.diskBytes,
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
    for (const runtime of await findRuntimes())
      checks.push({
        name: `runtime_${runtime.kind}`,
        ok: runtime.current,
        detail: `${runtime.version}${runtime.kind === this.#runtime.kind ? ", in use" : ""}`,
        ...(!runtime.current && { remedy: `install a newer ${runtime.kind}` }),
      });
    // Sandboxes need these; what else is missing is only less well enforced.
    const needed = new Set(["user_namespace", "private_mounts"]);
    return { usable: checks.every((check) => check.ok || !needed.has(check.name)), checks };
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
    const rootfs = await this.#options.images.rootfs(spec.image);
    const { limits, workspace } = spec;
    return {
      ...this.#identity(spec.id),
      ids_dir: idsDir,
      rootfs: { path: rootfs.path, binds: rootfs.binds, writable: spec.profile === "root" },
      runner,
      disk: {
        bytes: limits.diskBytes,
        inodes: limits.diskInodes,
        templates_dir: join(dataDir, "templates"),
      },
      ...(workspace !== undefined && { workspace: this.#workspaces.request(workspace) }),
      limits: {
        memory_bytes: limits.memoryBytes,
        cpu_millicores: limits.cpuMillicores,
        pids: limits.pids,
      },
      config: this.#fit(
        buildOciConfig({
          profile: spec.profile,
          memoryBytes: limits.memoryBytes,
          imageEnv: rootfs.info.env,
          env: spec.env,
          // The launcher mounts these itself, before the runtime starts.
          binds: [],
          architecture: process.arch,
          cgroupNamespace: this.#options.cgroupNamespace,
          transport: this.#runtime.kind === "runsc" ? "relay" : "socket",
          maxOpenFiles: this.#options.maxOpenFiles,
        }),
      ),
      meta: {
        image: spec.image,
        image_digest: rootfs.info.digest,
        profile: spec.profile,
        limits,
      },
    };
  }

  #fit(config: OciConfig): OciConfig {
    return this.#runtime.kind === "runsc" ? fitForGvisor(config) : config;
  }

  #identity(id: string): LauncherIdentity {
    return {
      id,
      state_dir: this.#stateDir(id),
      ids_dir: this.#options.idsDir,
      cgroup_parent: this.#cgroupParent,
      runtime: {
        kind: this.#runtime.kind,
        path: this.#runtime.path,
        root: join(this.#options.dataDir, "runtime"),
        // gVisor: its own network stack, with nothing but a loopback; ptrace runs everywhere.
        ...(this.#runtime.kind === "runsc" && { args: ["--network=none", "--platform=ptrace"] }),
      },
    };
  }

  /** What is known of the runtime that a sandbox was made with. */
  async #runtimeOf(record: SandboxRecord): Promise<Runtime> {
    const { kind, path } = record.runtime;
    const found = (await findRuntimes()).find((runtime) => runtime.kind === kind);
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
    throw new SandboxError(
      "SANDBOX_UNREACHABLE",
      `the sandbox ${id} has died; destroy it and make a new one`,
    );
  }

  /**
   * What the sandbox's files take up on its own disk. A paused sandbox cannot say, and one with a
   * persistent workspace speaks of that one's disk; then it is what was written back.
   */
  async #diskBytes(record: SandboxRecord): Promise<number> {
    if (!this.#paused.has(record.id) && record.workspace === undefined) {
      const channel = this.#channel(record);
      const { diskUsedBytes } = await channel.ping().finally(() => channel.close());
      if (diskUsedBytes !== undefined) return diskUsedBytes;
    }
    try {
      const { blocks } = await stat(join(this.#stateDir(record.id), "disk.img"));
      return blocks * 512;
    } catch (error) {
      if (isMissing(error)) return 0;
      throw error;
    }
  }
}
