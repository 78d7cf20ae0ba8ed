/** The common core of every backend whose sandboxes are containers with our runner as PID 1. */
import { SandboxError } from "@sandkasten/protocol";
import { RunnerChannel } from "../../channel/runner-channel.ts";
import type {
  AdoptedSandbox,
  Backend,
  BackendCapabilities,
  BackendHealth,
  IsolationReport,
  SandboxHandle,
  SandboxListing,
  SandboxSpec,
  SandboxStats,
  StorageUse,
  WorkspaceListing,
} from "../../ports/backend.ts";
import type { Channel } from "../../ports/channel.ts";
import { throwIfCancelled } from "./cancelled.ts";
import type { AskSandbox, Container, ContainerDriver } from "./container-driver.ts";
import { isolationTier } from "./isolation-tier.ts";
import { KeyedMutex } from "../../keyed-mutex.ts";
import { checkLimits, checkWorkspaceLimits } from "./limits.ts";
import { probeInside } from "./probe.ts";
import { SandboxChannels } from "./sandbox-channels.ts";
import { checkId } from "./sandbox-ids.ts";

export class ContainerBackend<C extends Container = Container> implements Backend {
  readonly #driver: ContainerDriver<C>;
  /** Serializes changes per sandbox. */
  readonly #changes = new KeyedMutex();
  /** Creates in progress, which are aborted when their sandbox is destroyed. */
  readonly #creating = new Map<string, AbortController>();
  /** Channels cannot ask the engine whether a sandbox is silent because it is paused. */
  readonly #paused = new Set<string>();
  readonly #channels = new SandboxChannels();
  #probes = 0;

  constructor(driver: ContainerDriver<C>) {
    this.#driver = driver;
  }

  get name(): string {
    return this.#driver.name;
  }

  get capabilities(): BackendCapabilities {
    return this.#driver.capabilities;
  }

  async create(spec: SandboxSpec, signal?: AbortSignal): Promise<SandboxHandle> {
    this.#check(spec);
    throwIfCancelled(signal);
    return await this.#changes.run(spec.id, async () => {
      const destroyed = new AbortController();
      this.#creating.set(spec.id, destroyed);
      let isMade = false;
      try {
        const given = signal === undefined ? [] : [signal];
        const handle = await this.#create(spec, AbortSignal.any([destroyed.signal, ...given]));
        isMade = true;
        return handle;
      } finally {
        this.#creating.delete(spec.id);
        // The caller must get the create's error; the next removal cleans up again.
        if (!isMade) await this.tidy().catch(() => undefined);
      }
    });
  }

  #check(spec: SandboxSpec): void {
    checkId("sandbox", spec.id);
    checkLimits(spec.limits);
    for (const workspace of [spec.workspace ?? [], spec.workspaces ?? []].flat()) {
      checkId("workspace", workspace.id);
      checkWorkspaceLimits(workspace);
    }
    const { network, isolations } = this.capabilities;
    if (spec.network === "full" && !network)
      throw this.#unsupported("has no network for sandboxes");
    const { isolation } = spec;
    if (isolation === "strong" && !isolations.includes(isolation))
      throw this.#unsupported("has no strong isolation; use standard, or install runsc (gVisor)");
  }

  /** Called in the id's turn: no other change happens to it meanwhile. */
  async #create(spec: SandboxSpec, signal: AbortSignal): Promise<SandboxHandle> {
    const { id } = spec;
    if (await this.#driver.hasTraces(id))
      throw new SandboxError("CONFLICT", `the sandbox ${id} already exists`);
    const make = await this.#driver.prepare(spec, signal);
    throwIfCancelled(signal);
    try {
      const container = await make();
      throwIfCancelled(signal);
      this.#paused.delete(id);
      const channel = this.#channelTo(container, spec.fence);
      this.#channels.keep(id, channel);
      await channel.ping();
      throwIfCancelled(signal);
      return container.handle;
    } catch (error) {
      await this.#remove(id).catch((left: unknown) => {
        throw leftBehind(id, error, left);
      });
      throw error;
    }
  }

  async adopt(id: string): Promise<AdoptedSandbox> {
    const { handle } = await this.#living(id);
    return { ...handle, state: this.#paused.has(id) ? "paused" : "running" };
  }

  async takeOver(id: string, fence: number): Promise<AdoptedSandbox> {
    return await this.#changes.run(id, async () => {
      await this.#driver.takeOver?.(await this.#living(id), fence);
      return await this.adopt(id);
    });
  }

  async open(id: string, fence?: number): Promise<Channel> {
    checkId("sandbox", id);
    const kept = this.#channels.handOut(id);
    if (kept !== undefined) return kept;
    const channel = this.#channelTo(await this.#living(id), fence);
    this.#channels.remember(id, channel);
    return channel;
  }

  #channelTo(container: C, fence?: number): RunnerChannel {
    const { helloMs } = this.#driver;
    return new RunnerChannel({
      connect: (signal) => this.#driver.connect(container, signal),
      silenceExpected: () => this.#paused.has(container.handle.id),
      fence,
      ...(helloMs !== undefined && { deadlines: { helloMs } }),
    });
  }

  async pause(id: string, fence?: number): Promise<void> {
    checkId("sandbox", id);
    if (!this.capabilities.pause) throw this.#unsupported("cannot pause sandboxes");
    await this.#changes.run(id, async () => {
      const container = await this.#living(id);
      this.#paused.add(id);
      try {
        await this.#driver.pause(container, fence);
        // A sandbox that died meanwhile is not paused.
        await this.#living(id);
      } catch (error) {
        this.#paused.delete(id);
        throw error;
      }
    });
  }

  async resume(id: string, fence?: number): Promise<void> {
    checkId("sandbox", id);
    if (!this.capabilities.pause) throw this.#unsupported("cannot pause sandboxes");
    await this.#changes.run(id, async () => {
      await this.#driver.resume(await this.#living(id), fence);
      this.#paused.delete(id);
    });
  }

  async destroy(id: string): Promise<void> {
    checkId("sandbox", id);
    this.#creating
      .get(id)
      ?.abort(new Error("the sandbox was destroyed while it was being created"));
    await this.#changes.run(id, () => this.#remove(id));
    await this.tidy();
  }

  async #remove(id: string): Promise<void> {
    this.#channels.forget(id);
    await this.#driver.remove(id);
    this.#paused.delete(id);
  }

  async tidy(): Promise<void> {
    await this.#driver.removed?.(() => this.#creating.size === 0);
  }

  async list(): Promise<SandboxListing[]> {
    return await this.#driver.list();
  }

  async stats(id: string): Promise<SandboxStats> {
    const container = await this.#living(id);
    const ask: AskSandbox | undefined = this.#paused.has(id)
      ? undefined
      : (question) => this.#ask(container, question);
    return await this.#driver.usage(container, ask, this.#nextProbe());
  }

  async isolation(id: string): Promise<IsolationReport> {
    const container = await this.#living(id);
    if (this.#paused.has(id))
      throw new SandboxError("CONFLICT", `the sandbox ${id} is paused; resume it first`);
    const inside = await this.#ask(container, (channel) => probeInside(channel, this.#nextProbe()));
    const { runtime, facts } = await this.#driver.measure(container, inside);
    return { tier: isolationTier(container.handle.profile, facts), runtime, facts };
  }

  async health(): Promise<BackendHealth> {
    return await this.#driver.health();
  }

  async reachable(): Promise<boolean> {
    return await this.#driver.reachable();
  }

  async ready(): Promise<boolean> {
    return await this.#driver.ready();
  }

  async storage(): Promise<readonly StorageUse[]> {
    return await this.#driver.storage();
  }

  async listWorkspaces(): Promise<WorkspaceListing[]> {
    return await this.#driver.listWorkspaces();
  }

  async destroyWorkspace(id: string): Promise<void> {
    checkId("workspace", id);
    await this.#driver.destroyWorkspace(id);
  }

  /** Asks the sandbox itself, over an open channel if there is one. */
  async #ask<T>(container: C, question: (channel: Channel) => Promise<T>): Promise<T> {
    const open = this.#channels.connected(container.handle.id);
    if (open !== undefined) return await question(open);
    const channel = this.#channelTo(container);
    try {
      return await question(channel);
    } finally {
      channel.close();
    }
  }

  async #living(id: string): Promise<C> {
    checkId("sandbox", id);
    const found = await this.#driver.find(id);
    if (found.state === "absent")
      throw new SandboxError("SANDBOX_NOT_FOUND", `there is no sandbox ${id}`);
    if (found.state === "dead") throw deadSandbox(id, found.outOfMemory === true);
    // Another process may have paused or resumed it.
    if (found.state === "paused") this.#paused.add(id);
    else this.#paused.delete(id);
    return found.container;
  }

  #nextProbe(): string {
    this.#probes += 1;
    return `probe-${process.pid}-${this.#probes}`;
  }

  #unsupported(what: string): SandboxError {
    return new SandboxError("UNSUPPORTED", `the backend ${this.name} ${what}`);
  }
}

/** Drivers throw the same for a sandbox that dies while they connect. */
export function deadSandbox(id: string, outOfMemory = false): SandboxError {
  return new SandboxError(
    "SANDBOX_UNREACHABLE",
    `the sandbox ${id} has died${outOfMemory ? ", because it ran out of memory" : ""}; destroy it and create a new one`,
    { details: { out_of_memory: outOfMemory } },
  );
}

/** A create that failed, and whose cleanup failed too: `list` shows what is left. */
function leftBehind(id: string, error: unknown, left: unknown): SandboxError {
  const { code, message } =
    error instanceof SandboxError
      ? error
      : { code: "INTERNAL_ERROR" as const, message: String(error) };
  return new SandboxError(code, `${message} Parts of ${id} still exist; destroy it.`, {
    cause: new AggregateError([error, left]),
  });
}
