/** The Docker backend: sandboxes that are containers of an engine, on this machine or another. */
import { setTimeout as sleep } from "node:timers/promises";
import { SandboxError } from "@sandkasten/protocol";
import { RunnerChannel } from "../../channel/runner-channel.ts";
import type {
  Backend,
  BackendHealth,
  IsolationReport,
  SandboxHandle,
  SandboxListing,
  SandboxSpec,
  SandboxState,
  SandboxStats,
  WorkspaceListing,
} from "../../ports/backend.ts";
import type { Channel } from "../../ports/channel.ts";
import type { ImageInfo, ImageStore } from "../../ports/image-store.ts";
import { throwIfCancelled } from "../container/cancelled.ts";
import { checkLimits } from "../container/limits.ts";
import { readOomScore } from "../container/oom-score.ts";
import { RUNNER_PATH } from "../container/paths.ts";
import { probeInside } from "../container/probe.ts";
import { checkId, isId } from "../container/sandbox-ids.ts";
import { Turns } from "../container/turns.ts";
import { sandboxSettings } from "./container-settings.ts";
import { Engine } from "./engine.ts";
import type { DockerConnection } from "./engine-connection.ts";
import { engineChecks, NEEDED } from "./engine-health.ts";
import { EngineStream } from "./engine-stream.ts";
import type { EngineContainer, EngineFacts } from "./engine-view.ts";
import { isolationReport } from "./isolation.ts";
import { MountPointCheck } from "./mount-point-check.ts";
import { PersistentWorkspaces } from "./persistent-workspaces.ts";
import { readRunner, RunnerVolume } from "./runner-volume.ts";
import type { RunnerProgram } from "./runner-volume.ts";
import { handleOf, LABEL, readNotes, sandboxLabels } from "./sandbox-labels.ts";
import type { SandboxNotes } from "./sandbox-labels.ts";
import { SandboxUsage } from "./sandbox-usage.ts";
import type { Living } from "./sandbox-usage.ts";
import { choosePlaces } from "./workspace/choose-places.ts";
import type { ChosenPlaces, WorkspaceOptions } from "./workspace/choose-places.ts";
import { lookAround } from "./workspace/own-container.ts";
import type { OwnSurroundings } from "./workspace/own-container.ts";
import { SessionDirectories } from "./workspace/session-directories.ts";
import { VarTmpCheck } from "./var-tmp-check.ts";

export interface DockerBackendOptions {
  readonly connection: DockerConnection;
  /** Tells this daemon's containers and volumes from another's on the same engine. */
  readonly instance: string;
  /** The native program, by absolute path. */
  readonly runner: string;
  readonly images: ImageStore;
  readonly workspace: WorkspaceOptions;
  /** The engine's network for sandboxes that have one; none has when absent. */
  readonly network?: string;
  /** One that the engine knows (`runsc`); its default when absent. */
  readonly runtime?: string;
  /** Where this daemon runs, when it shall not look itself; for tests. */
  readonly surroundings?: () => Promise<OwnSurroundings>;
}

/** A busy engine takes its time to start a relay. */
const HELLO_MS = 15_000;
const PAUSED_POLL_MS = 100;
const REMOVAL_POLL_MS = 50;
const REMOVAL_TIMEOUT_MS = 60_000;
/** Of the lock on what all sandboxes share. */
const ENGINE = "engine";

/**
 * SECURITY: threats 45 and 46: an exec enters a hostile container with a program of the engine's. It
 * becomes ours at once, from a volume that code cannot write, in a directory that code does not
 * choose, with no more rights than PID 1 began with, which it gives up itself. All that it says is
 * taken for code's own words. Guarded by docker-hostile.test.ts.
 */
const RELAY = {
  Cmd: [RUNNER_PATH, "relay"],
  User: "0:0",
  WorkingDir: "/",
  Privileged: false,
  // Variables of the image or the caller do not say whom it dials.
  Env: ["SANDKASTEN_SOCKET=/run/sandkasten/runner.sock"],
};

export class DockerBackend implements Backend {
  readonly name = "docker";
  readonly givesNetwork: boolean;
  readonly isolations: Backend["isolations"];
  readonly #options: DockerBackendOptions;
  readonly #engine: Engine;
  readonly #runner: RunnerProgram;
  readonly #runnerVolume: RunnerVolume;
  readonly #workspaces: PersistentWorkspaces;
  readonly #mountPoints: MountPointCheck;
  readonly #varTmp: VarTmpCheck;
  readonly #usage: SandboxUsage;
  /** Those that `bind` makes, and those that `shared-volume` does; sessions may be from either. */
  readonly #directories: { readonly bind: SessionDirectories; readonly shared: SessionDirectories };
  /** For channels, which cannot ask the engine whether silence is to be expected. */
  readonly #paused = new Set<string>();
  readonly #turns = new Turns();
  /** Creates under way, to be given up when their sandbox is destroyed. */
  readonly #creating = new Map<string, AbortController>();
  #facts: EngineFacts | undefined;
  #chosen: ChosenPlaces | undefined;
  #probes = 0;

  private constructor(options: DockerBackendOptions, runner: RunnerProgram) {
    const { instance, workspace } = options;
    this.givesNetwork = options.network !== undefined;
    this.isolations = [options.runtime === "runsc" ? "strong" : "standard"];
    this.#options = options;
    this.#engine = new Engine(options.connection);
    this.#runner = runner;
    this.#runnerVolume = new RunnerVolume(this.#engine, instance, runner);
    this.#workspaces = new PersistentWorkspaces(this.#engine, instance);
    this.#mountPoints = new MountPointCheck(this.#engine);
    this.#varTmp = new VarTmpCheck(this.#engine);
    this.#usage = new SandboxUsage(this.#engine);
    this.#directories = {
      bind: new SessionDirectories({ base: workspace.dir, instance, private: true }),
      shared: new SessionDirectories({ base: workspace.sharedDir, instance, private: false }),
    };
  }

  /** Dials nothing: the engine may come later. */
  static async open(options: DockerBackendOptions): Promise<DockerBackend> {
    return new DockerBackend(options, await readRunner(options.runner));
  }

  async create(spec: SandboxSpec, signal?: AbortSignal): Promise<SandboxHandle> {
    checkId("sandbox", spec.id);
    checkLimits(spec.limits);
    if (spec.network === "full" && !this.givesNetwork)
      throw new SandboxError("UNSUPPORTED", "there is no network to give; see docker.network");
    for (const workspace of [spec.workspace ?? [], spec.workspaces ?? []].flat())
      this.#workspaces.check(workspace);
    throwIfCancelled(signal);
    return await this.#turns.take(spec.id, async () => {
      const destroyed = new AbortController();
      this.#creating.set(spec.id, destroyed);
      let made = false;
      try {
        if (await this.#hasTraces(spec.id))
          throw new SandboxError("CONFLICT", `the sandbox ${spec.id} exists already`);
        const given = signal === undefined ? [] : [signal];
        const handle = await this.#create(spec, AbortSignal.any([destroyed.signal, ...given]));
        made = true;
        return handle;
      } finally {
        this.#creating.delete(spec.id);
        // Why it was not made is what the caller must know; the next one to go does this, too.
        if (!made) await this.#releaseRunner().catch(() => undefined);
      }
    });
  }

  /** In its turn: nothing else happens to this id meanwhile. */
  async #create(spec: SandboxSpec, signal: AbortSignal): Promise<SandboxHandle> {
    const image = await this.#options.images.inspect(spec.image);
    throwIfCancelled(signal);
    try {
      const notes = await this.#createContainer(spec, image, signal);
      const further = (spec.workspaces ?? []).map(({ path }) => path);
      await this.#mountPoints.check(spec.id, image.digest, further);
      throwIfCancelled(signal);
      await this.#engine.startContainer(spec.id);
      throwIfCancelled(signal);
      const channel = this.#channel(spec.id);
      await channel.ping().finally(() => channel.close());
      throwIfCancelled(signal);
      return handleOf(spec.id, notes);
    } catch (error) {
      await this.#destroy(spec.id).catch((left: unknown) => {
        throw leftBehind(spec.id, error, left);
      });
      throw error;
    }
  }

  async #createContainer(
    spec: SandboxSpec,
    image: ImageInfo,
    signal: AbortSignal,
  ): Promise<SandboxNotes> {
    const { instance, runtime, network } = this.#options;
    const { facts, places, mountVarTmp } = await this.#prepareEngine(image.digest);
    throwIfCancelled(signal);
    const notes: SandboxNotes = {
      image: spec.image,
      imageDigest: image.digest,
      profile: spec.profile,
      limits: spec.limits,
      workspaceId: spec.workspace?.id,
      strategy: places.strategy,
      createdAtMs: Date.now(),
    };
    const ownLabels = sandboxLabels(instance, spec.id);
    const workspace =
      spec.workspace === undefined
        ? await places.make(spec.id, ownLabels)
        : await this.#workspaces.make(spec.workspace);
    const workspaces = await Promise.all(
      (spec.workspaces ?? []).map(async (further) => ({
        source: await this.#workspaces.make(further),
        path: further.path,
        readOnly: further.readOnly,
      })),
    );
    throwIfCancelled(signal);
    await this.#engine.createContainer(
      sandboxSettings({
        spec,
        imageId: image.digest,
        imageEnv: image.env,
        facts,
        labels: sandboxLabels(instance, spec.id, notes),
        ownLabels,
        mountVarTmp,
        runnerVolume: this.#runnerVolume.name,
        workspace,
        workspaces,
        runtime,
        network,
      }),
    );
    throwIfCancelled(signal);
    return notes;
  }

  /** What must be there before the first sandbox; an image of the engine's is needed to look with. */
  async #prepareEngine(imageId: string): Promise<{
    readonly facts: EngineFacts;
    readonly places: ChosenPlaces["places"];
    readonly mountVarTmp: boolean;
  }> {
    return await this.#turns.take(ENGINE, async () => {
      const facts = (this.#facts ??= await this.#engine.facts());
      if (facts.architecture !== this.#runner.architecture)
        throw new SandboxError(
          "UNSUPPORTED",
          `the engine's machine is ${facts.architecture}, and the runner is for ${this.#runner.architecture}; use a daemon that was built for it`,
        );
      await this.#runnerVolume.ensure(imageId);
      const { places } = await this.#choose(facts, imageId);
      const source = { kind: "volume", name: this.#runnerVolume.name } as const;
      const idle = { instance: this.#options.instance, imageId, source };
      return { facts, places, mountVarTmp: await this.#varTmp.canMount(idle) };
    });
  }

  async #choose(facts: EngineFacts, imageId: string): Promise<ChosenPlaces> {
    const { instance, workspace: options, surroundings = lookAround } = this.#options;
    this.#chosen ??= await choosePlaces(
      {
        engine: this.#engine,
        instance,
        options,
        bindDirectories: this.#directories.bind,
        sharedDirectories: this.#directories.shared,
        surroundings,
      },
      facts,
      imageId,
    );
    return this.#chosen;
  }

  async adopt(id: string): Promise<SandboxHandle> {
    return handleOf(id, (await this.#living(id)).notes);
  }

  async open(id: string): Promise<Channel> {
    await this.#living(id);
    return this.#channel(id);
  }

  #channel(id: string): RunnerChannel {
    return new RunnerChannel({
      connect: (signal) => this.#relay(id, signal),
      silenceExpected: () => this.#paused.has(id),
      deadlines: { helloMs: HELLO_MS },
    });
  }

  /** A connection to the runner. A paused sandbox takes none; it is waited for. */
  async #relay(id: string, signal: AbortSignal): Promise<EngineStream> {
    for (;;) {
      const stream = await this.#engine.exec(id, RELAY, signal);
      if (stream instanceof EngineStream) return stream;
      // Whoever has a channel had a sandbox: removed or only dead, it is gone.
      if (stream === "absent" || stream === "not running") throw hasDied(id);
      await sleep(PAUSED_POLL_MS, undefined, { signal });
    }
  }

  async pause(id: string): Promise<void> {
    checkId("sandbox", id);
    await this.#turns.take(id, async () => {
      await this.#living(id);
      this.#paused.add(id);
      try {
        await this.#engine.pauseContainer(id);
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
      await this.#living(id);
      await this.#engine.resumeContainer(id);
      this.#paused.delete(id);
    });
  }

  async destroy(id: string): Promise<void> {
    checkId("sandbox", id);
    this.#creating.get(id)?.abort(new Error("the sandbox was destroyed while it was made"));
    await this.#turns.take(id, () => this.#destroy(id));
    await this.#releaseRunner();
  }

  async #destroy(id: string): Promise<void> {
    await this.#removeContainer(id);
    for (const { name } of await this.#engine.listVolumes(this.#labelsOf(id)))
      if ((await this.#engine.removeVolume(name)) === "in use")
        throw new SandboxError(
          "CONFLICT",
          `the volume ${name} of the sandbox ${id} is in use by a container that is not ours; remove that one first`,
        );
    for (const directories of Object.values(this.#directories)) await directories.remove(id);
    this.#paused.delete(id);
    this.#usage.forget(id);
  }

  /** By its labels: a container of another daemon may have any name, and ours may have been renamed. */
  async #removeContainer(id: string): Promise<void> {
    const deadline = performance.now() + REMOVAL_TIMEOUT_MS;
    for (;;) {
      const found = await this.#engine.listContainers(this.#labelsOf(id));
      if (found.length === 0) return;
      if (performance.now() > deadline)
        throw new SandboxError(
          "SANDBOX_UNREACHABLE",
          `the engine has not removed the container of ${id} within ${REMOVAL_TIMEOUT_MS / 1000} s`,
        );
      for (const { containerId } of found)
        // Somebody else may be removing it already; it is gone when it is no longer listed.
        if ((await this.#engine.removeContainer(containerId)) === "going")
          await sleep(REMOVAL_POLL_MS);
    }
  }

  /** The last one out takes the runner's volume along. */
  async #releaseRunner(): Promise<void> {
    await this.#turns.take(ENGINE, async () => {
      if (this.#creating.size > 0) return;
      const labels = { [LABEL.instance]: this.#options.instance, [LABEL.sessionId]: "" };
      if ((await this.#engine.listContainers(labels)).length > 0) return;
      await this.#runnerVolume.removeUnused();
      // Whatever comes next may find another engine here.
      this.#facts = undefined;
    });
  }

  async list(): Promise<SandboxListing[]> {
    const labels = { [LABEL.instance]: this.#options.instance, [LABEL.sessionId]: "" };
    const found = new Map<string, SandboxState>();
    // What is not a container any more, or not yet, is a trace of one.
    for (const directories of Object.values(this.#directories))
      for (const id of await directories.list()) found.set(id, "dead");
    for (const volume of await this.#engine.listVolumes(labels))
      found.set(volume.labels[LABEL.sessionId] ?? "", "dead");
    for (const { state, labels: own } of await this.#engine.listContainers(labels))
      found.set(own[LABEL.sessionId] ?? "", stateOf(state));
    return [...found].filter(([id]) => isId("sandbox", id)).map(([id, state]) => ({ id, state }));
  }

  async stats(id: string): Promise<SandboxStats> {
    const living = await this.#living(id);
    const channel = this.#paused.has(id) ? undefined : this.#channel(id);
    try {
      return await this.#usage.of(living, channel, this.#nextProbe());
    } finally {
      channel?.close();
    }
  }

  async isolation(id: string): Promise<IsolationReport> {
    const { container, notes } = await this.#living(id);
    if (this.#paused.has(id))
      throw new SandboxError("CONFLICT", `the sandbox ${id} is paused; resume it to look inside`);
    const channel = this.#channel(id);
    try {
      const [facts, usage, inside, daemonOomScore] = await Promise.all([
        this.#engine.facts(),
        this.#engine.usage(id),
        probeInside(channel, this.#nextProbe()),
        readOomScore("self"),
      ]);
      if (usage === undefined) throw hasDied(id);
      return isolationReport({ notes, container, facts, usage, inside, daemonOomScore });
    } finally {
      channel.close();
    }
  }

  async health(): Promise<BackendHealth> {
    const { connection, runtime } = this.#options;
    try {
      const facts = await this.#engine.facts();
      const checks = [
        ...engineChecks({
          facts,
          architecture: this.#runner.architecture,
          wantedRuntime: runtime,
          unprotected: connection.host.startsWith("tcp:") && connection.tls === undefined,
        }),
        await this.#workspaceCheck(facts),
        ...(await this.#networkChecks()),
      ];
      return { usable: checks.every((check) => check.ok || !NEEDED.has(check.name)), checks };
    } catch (error) {
      if (!(error instanceof SandboxError)) throw error;
      const remedy = `start the engine, or set docker.host to where it is (now ${connection.host})`;
      const words = error.cause instanceof Error ? ` (${error.cause.message})` : "";
      const check = { name: "engine", ok: false, detail: `${error.message}${words}`, remedy };
      return { usable: false, checks: [check] };
    }
  }

  async #workspaceCheck(facts: EngineFacts): Promise<BackendHealth["checks"][number]> {
    const name = "workspace";
    const imageId = await this.#engine.anyImage();
    if (imageId === undefined && this.#chosen === undefined)
      return { name, ok: true, detail: "is decided when the engine has an image to look with" };
    try {
      const { places, why } = await this.#turns.take(ENGINE, () =>
        this.#choose(facts, imageId ?? ""),
      );
      return { name, ok: true, detail: `${places.strategy}: ${why}` };
    } catch (error) {
      if (!(error instanceof SandboxError) || error.code === "ENGINE_UNREACHABLE") throw error;
      return { name, ok: false, detail: error.message, remedy: "set docker.workspace to volume" };
    }
  }

  async #networkChecks(): Promise<BackendHealth["checks"]> {
    const { network } = this.#options;
    if (network === undefined) return [];
    const ok = await this.#engine.hasNetwork(network);
    const check = { name: "network", ok, detail: `${network}, for sandboxes that ask for one` };
    return [ok ? check : { ...check, remedy: `run \`docker network create ${network}\`` }];
  }

  /** The engine keeps everything. */
  async storage(): Promise<readonly []> {
    return await Promise.resolve([]);
  }

  async ready(): Promise<boolean> {
    return await this.reachable();
  }

  async reachable(): Promise<boolean> {
    return await this.#engine.answers();
  }

  async listWorkspaces(): Promise<WorkspaceListing[]> {
    return await this.#workspaces.list();
  }

  async destroyWorkspace(id: string): Promise<void> {
    await this.#workspaces.destroy(id);
  }

  #labelsOf(id: string): Readonly<Record<string, string>> {
    return { [LABEL.instance]: this.#options.instance, [LABEL.sessionId]: id };
  }

  #isOurs(id: string, { labels }: EngineContainer): boolean {
    return Object.entries(this.#labelsOf(id)).every(([name, value]) => labels[name] === value);
  }

  #nextProbe(): string {
    this.#probes += 1;
    return `probe-${process.pid}-${this.#probes}`;
  }

  async #living(id: string): Promise<Living> {
    checkId("sandbox", id);
    const container = await this.#engine.inspectContainer(id);
    if (container === undefined || !this.#isOurs(id, container)) {
      if (await this.#hasTraces(id)) throw hasDied(id);
      throw new SandboxError("SANDBOX_NOT_FOUND", `there is no sandbox ${id}`);
    }
    if (!container.running) throw hasDied(id);
    // Somebody else may have paused or resumed it.
    if (container.paused) this.#paused.add(id);
    else this.#paused.delete(id);
    return { id, container, notes: readNotes(id, container.labels) };
  }

  /** Whether anything is left of, or has begun to be, a sandbox of this id. */
  async #hasTraces(id: string): Promise<boolean> {
    if ((await this.#engine.inspectContainer(id)) !== undefined) return true;
    if ((await this.#engine.listVolumes(this.#labelsOf(id))).length > 0) return true;
    const { bind, shared } = this.#directories;
    return (await bind.has(id)) || (await shared.has(id));
  }
}

function stateOf(state: string): SandboxState {
  return state === "running" || state === "paused" ? state : "dead";
}

function hasDied(id: string): SandboxError {
  return new SandboxError(
    "SANDBOX_UNREACHABLE",
    `the sandbox ${id} has died; destroy it and make a new one`,
  );
}

/** A create that failed, and could not be cleaned up after: `list` shows what is left. */
function leftBehind(id: string, error: unknown, left: unknown): SandboxError {
  const { code, message } =
    error instanceof SandboxError
      ? error
      : { code: "INTERNAL_ERROR" as const, message: String(error) };
  return new SandboxError(code, `${message} What was made of ${id} is still there; destroy it.`, {
    cause: new AggregateError([error, left]),
  });
}
