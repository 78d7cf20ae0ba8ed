/** A backend with in-memory sandboxes. Several backends may share one machine, as successive daemons do. */
import { SandboxError } from "@sandkasten/protocol";
import type {
  AdoptedSandbox,
  Backend,
  BackendHealth,
  Channel,
  IsolationReport,
  SandboxHandle,
  SandboxListing,
  SandboxSpec,
  SandboxStats,
  WorkspaceListing,
  WorkspaceSpec,
} from "../ports.ts";
import { FakeChannel } from "./fake-channel.ts";
import { FakeSandbox } from "./fake-sandbox.ts";
import { MemoryDisk } from "./memory-disk.ts";

/** What outlives a backend: the sandboxes, and the workspaces, which also outlive the sandboxes. */
export class FakeMachine {
  readonly sandboxes = new Map<
    string,
    { readonly handle: SandboxHandle; readonly sandbox: FakeSandbox }
  >();
  readonly workspaces = new Map<
    string,
    { readonly diskLimitBytes: number; readonly disk: MemoryDisk }
  >();
  /** Usable images. */
  readonly images: Set<string>;

  constructor(images: Iterable<string> = ["host"]) {
    this.images = new Set(images);
  }
}

export class FakeBackend implements Backend {
  readonly name: string;
  /** Tests may change it. It does not change the sandboxes, which have no network in any case. */
  capabilities: Backend["capabilities"] = {
    isolations: ["standard"],
    network: false,
    pause: true,
    quota: false,
    snapshot: false,
  };
  readonly #machine: FakeMachine;

  constructor(machine: FakeMachine = new FakeMachine(), name = "fake") {
    this.#machine = machine;
    this.name = name;
  }

  async create(spec: SandboxSpec, signal?: AbortSignal): Promise<SandboxHandle> {
    if (signal?.aborted === true)
      throw new SandboxError("CANCELLED", "given up by its caller", { cause: signal.reason });
    if (!/^(?:ses|sbx)_[a-z0-9]{2,48}$/.test(spec.id))
      throw new SandboxError("INVALID_REQUEST", `${spec.id} is no id of a sandbox`);
    if (Object.values(spec.limits).some((limit) => !Number.isSafeInteger(limit) || limit <= 0))
      throw new SandboxError("INVALID_REQUEST", "every limit is a whole number above 0");
    if (spec.workspace !== undefined) checkWorkspace(spec.workspace);
    if (this.#machine.sandboxes.has(spec.id))
      throw new SandboxError("CONFLICT", `a sandbox ${spec.id} exists already`);
    if (!this.#machine.images.has(spec.image))
      throw new SandboxError("INVALID_IMAGE", `there is no image ${spec.image}`);
    const handle: SandboxHandle = {
      id: spec.id,
      image: spec.image,
      imageDigest: spec.imageDigest ?? `fake:${spec.image}`,
      profile: spec.profile,
      limits: { ...spec.limits },
      ...(spec.workspace !== undefined && { workspaceId: spec.workspace.id }),
      createdAtMs: Date.now(),
    };
    const disk = spec.workspace === undefined ? undefined : this.#workspaceDisk(spec.workspace);
    this.#machine.sandboxes.set(spec.id, { handle, sandbox: new FakeSandbox(spec.env, disk) });
    // A moment in which it may be destroyed, as with every real sandbox.
    await Promise.resolve();
    if (!this.#machine.sandboxes.has(spec.id))
      throw new SandboxError("CANCELLED", "the sandbox was destroyed while it was being created");
    return handle;
  }

  async adopt(id: string): Promise<AdoptedSandbox> {
    const { handle, sandbox } = this.#find(id);
    return Promise.resolve({ ...handle, state: sandbox.paused ? "paused" : "running" });
  }

  async takeOver(id: string, fence: number): Promise<AdoptedSandbox> {
    this.#find(id).sandbox.takeOver(fence);
    return await this.adopt(id);
  }

  async open(id: string, fence?: number): Promise<Channel> {
    const { sandbox } = this.#find(id);
    const channel = new FakeChannel(sandbox);
    if (fence !== undefined) sandbox.admit(channel, fence);
    return Promise.resolve(channel);
  }

  async pause(id: string, fence?: number): Promise<void> {
    const { sandbox } = this.#find(id);
    sandbox.requireOwner(id, fence);
    return Promise.resolve(sandbox.pause());
  }

  async resume(id: string, fence?: number): Promise<void> {
    const { sandbox } = this.#find(id);
    sandbox.requireOwner(id, fence);
    return Promise.resolve(sandbox.resume());
  }

  destroy(id: string): Promise<void> {
    this.#machine.sandboxes.get(id)?.sandbox.destroy();
    this.#machine.sandboxes.delete(id);
    return Promise.resolve();
  }

  list(): Promise<SandboxListing[]> {
    const listings = [...this.#machine.sandboxes].map(([id, { sandbox }]) => ({
      id,
      state: sandbox.paused ? ("paused" as const) : ("running" as const),
    }));
    return Promise.resolve(listings);
  }

  async stats(id: string): Promise<SandboxStats> {
    const { handle, sandbox } = this.#find(id);
    const running = [...sandbox.execs.values()].filter((exec) => exec.state === "running").length;
    return Promise.resolve({
      memoryBytes: 4096 * (1 + running),
      memoryLimitBytes: handle.limits.memoryBytes,
      cpuUsageUsec: sandbox.execs.size,
      pids: 1 + running,
      pidsLimit: handle.limits.pids,
      diskBytes: sandbox.files.totalBytes,
      diskLimitBytes: handle.limits.diskBytes,
      oomKills: 0,
    });
  }

  async tidy(): Promise<void> {}

  async storage(): Promise<readonly []> {
    return Promise.resolve([]);
  }

  async ready(): Promise<boolean> {
    return Promise.resolve(true);
  }

  async reachable(): Promise<boolean> {
    return Promise.resolve(true);
  }

  async isolation(id: string): Promise<IsolationReport> {
    if (this.#find(id).sandbox.paused)
      throw new SandboxError("CONFLICT", `the sandbox ${id} is paused; resume it first`);
    const facts = [
      { name: "memory", enforced: false, measured: "an object in the test's own process" },
    ];
    return Promise.resolve({ tier: "weak", runtime: "fake", facts });
  }

  health(): Promise<BackendHealth> {
    return Promise.resolve({
      usable: true,
      checks: [{ name: "memory", ok: true, detail: "there is some" }],
    });
  }

  listWorkspaces(): Promise<WorkspaceListing[]> {
    const found = [...this.#machine.workspaces];
    return Promise.resolve(found.map(([id, { diskLimitBytes }]) => ({ id, diskLimitBytes })));
  }

  async destroyWorkspace(id: string): Promise<void> {
    checkWorkspaceId(id);
    const users = [...this.#machine.sandboxes.values()].filter(
      ({ handle }) => handle.workspaceId === id,
    );
    if (users.length > 0)
      throw new SandboxError("CONFLICT", `the workspace ${id} is in use; destroy its sandboxes`);
    this.#machine.workspaces.delete(id);
    return Promise.resolve();
  }

  /** The existing one, or a new one. */
  #workspaceDisk({ id, diskBytes }: WorkspaceSpec): MemoryDisk {
    const found = this.#machine.workspaces.get(id);
    if (found !== undefined) return found.disk;
    const disk = new MemoryDisk();
    this.#machine.workspaces.set(id, { diskLimitBytes: diskBytes, disk });
    return disk;
  }

  #find(id: string): { readonly handle: SandboxHandle; readonly sandbox: FakeSandbox } {
    const found = this.#machine.sandboxes.get(id);
    if (found === undefined)
      throw new SandboxError("SANDBOX_NOT_FOUND", `no sandbox has the id ${id}`);
    return found;
  }
}

function checkWorkspace({ id, diskBytes, diskInodes }: WorkspaceSpec): void {
  checkWorkspaceId(id);
  if ([diskBytes, diskInodes].some((limit) => !Number.isSafeInteger(limit) || limit <= 0))
    throw new SandboxError("INVALID_REQUEST", "the size of a workspace is a whole number above 0");
}

function checkWorkspaceId(id: string): void {
  if (!/^wsp_[a-z0-9]{2,48}$/.test(id))
    throw new SandboxError("INVALID_REQUEST", `${id} is no id of a workspace`);
}
