/** Drives a Docker engine: a sandbox is one of its containers, with our volumes or directories. */
import type { Duplex } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { SandboxError } from "@sandkasten/protocol";
import type {
  BackendCapabilities,
  BackendHealth,
  SandboxListing,
  SandboxSpec,
  SandboxState,
  SandboxStats,
  WorkspaceListing,
} from "../../ports/backend.ts";
import type { ImageStore } from "../../ports/image-store.ts";
import { deadSandbox } from "../container/container-backend.ts";
import type {
  AskSandbox,
  ContainerDriver,
  FoundContainer,
  Measured,
} from "../container/container-driver.ts";
import { readOomScore } from "../container/oom-score.ts";
import { RUNNER_PATH } from "../container/paths.ts";
import type { Probe } from "../container/probe.ts";
import { isId } from "../container/sandbox-ids.ts";
import { ContainerCreation } from "./container-creation.ts";
import { Engine } from "./engine.ts";
import type { DockerConnection } from "./engine-connection.ts";
import { engineChecks, NEEDED } from "./engine-health.ts";
import { EnginePreparation } from "./engine-preparation.ts";
import { EngineStream } from "./engine-stream.ts";
import type { EngineContainer, Labels } from "./engine-view.ts";
import { measureIsolation } from "./isolation.ts";
import { PersistentWorkspaces } from "./persistent-workspaces.ts";
import type { RunnerProgram } from "./runner-volume.ts";
import { handleOf, LABEL, readNotes } from "./sandbox-labels.ts";
import { SandboxUsage } from "./sandbox-usage.ts";
import type { DockerContainer } from "./sandbox-usage.ts";
import type { WorkspaceOptions } from "./workspace/choose-places.ts";
import { lookAround } from "./workspace/own-container.ts";
import type { OwnSurroundings } from "./workspace/own-container.ts";
import { SessionDirectories } from "./workspace/session-directories.ts";

export interface DockerDriverOptions {
  readonly connection: DockerConnection;
  /**
   * Distinguishes the sandboxes of this daemon, and of those it shares them with, from others on
   * the engine.
   */
  readonly instance: string;
  /** Distinguishes this daemon's own resources from those of the sharing daemons; the instance when absent. */
  readonly daemon?: string | undefined;
  /** The native program, by absolute path. */
  readonly runner: string;
  readonly images: ImageStore;
  readonly workspace: WorkspaceOptions;
  /** The engine's network for sandboxes that have one; when absent, none has. */
  readonly network?: string;
  /** A runtime known to the engine (`runsc`); its default when absent. */
  readonly runtime?: string;
  /** Where this daemon runs; detected when absent. For tests. */
  readonly surroundings?: () => Promise<OwnSurroundings>;
}

/** A busy engine is slow to start a relay. */
const HELLO_MS = 15_000;
const PAUSED_POLL_MS = 100;
const REMOVAL_POLL_MS = 50;
const REMOVAL_TIMEOUT_MS = 60_000;

/**
 * SECURITY: against replaced sockets and attacks on PID 1: an exec enters a hostile container with
 * a program of the engine. It becomes ours at once, from a volume that code cannot write to, in a
 * directory that code does not choose, with no more rights than PID 1 started with, which it gives
 * up itself. Everything it says is treated as coming from code. Guarded by docker-hostile.test.ts.
 */
const RELAY = {
  Cmd: [RUNNER_PATH, "relay"],
  User: "0:0",
  WorkingDir: "/",
  Privileged: false,
  // Variables of the image or the caller must not decide what it connects to.
  Env: ["SANDKASTEN_SOCKET=/run/sandkasten/runner.sock"],
};

export class DockerDriver implements ContainerDriver<DockerContainer> {
  readonly name = "docker";
  readonly helloMs = HELLO_MS;
  readonly capabilities: BackendCapabilities;
  readonly #options: DockerDriverOptions;
  readonly #architecture: string;
  readonly #engine: Engine;
  readonly #preparation: EnginePreparation;
  readonly #workspaces: PersistentWorkspaces;
  readonly #creation: ContainerCreation;
  readonly #usage: SandboxUsage;
  /** For the strategies `bind` and `shared-volume`; sandboxes of either may exist. */
  readonly #directories: readonly SessionDirectories[];

  constructor(options: DockerDriverOptions, runner: RunnerProgram) {
    const { instance, daemon = instance, workspace, surroundings = lookAround } = options;
    this.capabilities = {
      isolations: [options.runtime === "runsc" ? "strong" : "standard"],
      network: options.network !== undefined,
      pause: true,
      // Volumes of an engine have no size limit.
      quota: false,
      snapshot: false,
    };
    this.#options = options;
    this.#architecture = runner.architecture;
    const engine = new Engine(options.connection);
    this.#engine = engine;
    this.#workspaces = new PersistentWorkspaces(engine, instance);
    this.#usage = new SandboxUsage(engine);
    const bind = new SessionDirectories({ base: workspace.dir, instance, private: true });
    const shared = new SessionDirectories({ base: workspace.sharedDir, instance, private: false });
    this.#directories = [bind, shared];
    const places = { bindDirectories: bind, sharedDirectories: shared, options: workspace };
    this.#preparation = new EnginePreparation(
      { engine, instance, daemon, surroundings, ...places },
      runner,
    );
    this.#creation = new ContainerCreation({
      ...options,
      engine,
      preparation: this.#preparation,
      persistent: this.#workspaces,
    });
  }

  async hasTraces(id: string): Promise<boolean> {
    if ((await this.#inspect(id)) !== undefined) return true;
    if ((await this.#engine.listVolumes(this.#labelsOf(id))).length > 0) return true;
    for (const directories of this.#directories) if (await directories.has(id)) return true;
    return false;
  }

  async prepare(spec: SandboxSpec, signal: AbortSignal): Promise<() => Promise<DockerContainer>> {
    return await this.#creation.prepare(spec, signal);
  }

  async find(id: string): Promise<FoundContainer<DockerContainer>> {
    const found = await this.#inspect(id);
    if (found === undefined || !this.#isOurs(id, found))
      return { state: (await this.hasTraces(id)) ? "dead" : "absent" };
    if (!found.running) return { state: "dead" };
    const notes = readNotes(id, found.labels);
    const { outOfMemory, containerId, name } = found;
    const container = { handle: handleOf(id, notes), containerId, name, notes, outOfMemory };
    return { state: found.paused ? "paused" : "running", container };
  }

  /** A paused container accepts no exec, so wait for it. */
  async connect(
    { handle: { id }, containerId }: DockerContainer,
    signal: AbortSignal,
  ): Promise<Duplex> {
    for (;;) {
      const stream = await this.#engine.exec(containerId, RELAY, signal);
      if (stream instanceof EngineStream) return stream;
      // There was a sandbox when the channel was opened: whether removed or dead, it is gone.
      if (stream === "absent" || stream === "not running") throw deadSandbox(id);
      await sleep(PAUSED_POLL_MS, undefined, { signal });
    }
  }

  /**
   * SECURITY: an engine knows no fencing tokens, and a daemon that was stopped can send a request much
   * later. So pausing and resuming address a container by its name, and the daemon that takes a
   * sandbox over changes the name: the engine then refuses the late request (threat: a stalled
   * daemon). Guarded by docker-shared-engine.test.ts and tests/docker/several-daemons.test.ts.
   */
  async takeOver({ handle: { id }, name }: DockerContainer, fence: number): Promise<void> {
    let current: string | undefined = name;
    while (current !== undefined && tokenIn(current, id) < fence) {
      if ((await this.#engine.renameContainer(current, `${id}-${fence}`)) === "done") return;
      current = (await this.#inspect(id))?.name;
    }
    if (current === undefined) throw deadSandbox(id);
    if (tokenIn(current, id) > fence) throw takenOver(id);
  }

  async pause(container: DockerContainer, fence?: number): Promise<void> {
    await this.#asOwner(container, fence, (name) => this.#engine.pauseContainer(name));
  }

  async resume(container: DockerContainer, fence?: number): Promise<void> {
    await this.#asOwner(container, fence, (name) => this.#engine.resumeContainer(name));
  }

  async #asOwner(
    { handle: { id }, name }: DockerContainer,
    fence: number | undefined,
    act: (name: string) => Promise<"done" | "absent">,
  ): Promise<void> {
    if (fence !== undefined && tokenIn(name, id) > fence) throw takenOver(id);
    if ((await act(name)) === "done") return;
    throw (await this.#inspect(id)) === undefined ? deadSandbox(id) : takenOver(id);
  }

  /** By its name, or by its labels: a sandbox that was taken over has another name. */
  async #inspect(id: string): Promise<EngineContainer | undefined> {
    const named = await this.#engine.inspectContainer(id);
    if (named !== undefined) return named;
    const [renamed] = await this.#engine.listContainers(this.#labelsOf(id));
    return renamed && (await this.#engine.inspectContainer(renamed.containerId));
  }

  async remove(id: string): Promise<void> {
    await this.#removeContainer(id);
    for (const { name } of await this.#engine.listVolumes(this.#labelsOf(id)))
      if ((await this.#engine.removeVolume(name)) === "in use")
        throw new SandboxError(
          "CONFLICT",
          `the volume ${name} of the sandbox ${id} is in use by a container that is not ours; remove that container first`,
        );
    for (const directories of this.#directories) await directories.remove(id);
    this.#usage.forget(id);
  }

  /** By its labels: another daemon's container may have any name, and ours may have been renamed. */
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
        // Another process may already be removing it; it is gone when it is no longer listed.
        if ((await this.#engine.removeContainer(containerId)) === "going")
          await sleep(REMOVAL_POLL_MS);
    }
  }

  async removed(isIdle: () => boolean): Promise<void> {
    await this.#preparation.release(isIdle);
  }

  async list(): Promise<SandboxListing[]> {
    const labels = { [LABEL.instance]: this.#options.instance, [LABEL.sessionId]: "" };
    const found = new Map<string, SandboxState>();
    // What is no longer a container, or not yet, is a trace of one.
    for (const directories of this.#directories)
      for (const id of await directories.list()) found.set(id, "dead");
    for (const volume of await this.#engine.listVolumes(labels))
      found.set(volume.labels[LABEL.sessionId] ?? "", "dead");
    for (const { state, labels: own } of await this.#engine.listContainers(labels))
      found.set(own[LABEL.sessionId] ?? "", stateOf(state));
    return [...found].filter(([id]) => isId("sandbox", id)).map(([id, state]) => ({ id, state }));
  }

  async usage(
    container: DockerContainer,
    ask: AskSandbox | undefined,
    execId: string,
  ): Promise<SandboxStats> {
    return await this.#usage.of(container, ask, execId);
  }

  async measure(measured: DockerContainer, inside: Probe): Promise<Measured> {
    const { handle, containerId, notes } = measured;
    const { id } = handle;
    const [container, facts, usage, daemonOomScore] = await Promise.all([
      this.#engine.inspectContainer(containerId),
      this.#engine.facts(),
      this.#engine.usage(containerId),
      readOomScore("self"),
    ]);
    if (container === undefined || usage === undefined) throw deadSandbox(id);
    return measureIsolation({ notes, container, facts, usage, inside, daemonOomScore });
  }

  async health(): Promise<BackendHealth> {
    const { connection, runtime } = this.#options;
    try {
      const facts = await this.#engine.facts();
      const checks = [
        ...engineChecks({
          facts,
          architecture: this.#architecture,
          wantedRuntime: runtime,
          unprotected: connection.host.startsWith("tcp:") && connection.tls === undefined,
        }),
        await this.#preparation.check(facts),
        ...(await this.#networkChecks()),
      ];
      return { usable: checks.every((check) => check.ok || !NEEDED.has(check.name)), checks };
    } catch (error) {
      if (!(error instanceof SandboxError)) throw error;
      const remedy = `start the engine, or set docker.host to its address (now ${connection.host})`;
      const words = error.cause instanceof Error ? ` (${error.cause.message})` : "";
      const check = { name: "engine", ok: false, detail: `${error.message}${words}`, remedy };
      return { usable: false, checks: [check] };
    }
  }

  async #networkChecks(): Promise<BackendHealth["checks"]> {
    const { network } = this.#options;
    if (network === undefined) return [];
    const ok = await this.#engine.hasNetwork(network);
    const check = { name: "network", ok, detail: `${network}, for sandboxes that request one` };
    return [ok ? check : { ...check, remedy: `run \`docker network create ${network}\`` }];
  }

  /** The engine stores everything. */
  async storage(): Promise<readonly []> {
    return await Promise.resolve([]);
  }

  async ready(): Promise<boolean> {
    return await this.reachable();
  }

  async reachable(): Promise<boolean> {
    return await this.#engine.responds();
  }

  async listWorkspaces(): Promise<WorkspaceListing[]> {
    return await this.#workspaces.list();
  }

  async destroyWorkspace(id: string): Promise<void> {
    await this.#workspaces.destroy(id);
  }

  #labelsOf(id: string): Labels {
    return { [LABEL.instance]: this.#options.instance, [LABEL.sessionId]: id };
  }

  #isOurs(id: string, { labels }: EngineContainer): boolean {
    return Object.entries(this.#labelsOf(id)).every(([name, value]) => labels[name] === value);
  }
}

/** The token of the daemon that last took the sandbox over; -1 if none has. */
function tokenIn(name: string, id: string): number {
  const [, token] = /-(\d+)$/u.exec(name.slice(id.length)) ?? [];
  return token === undefined ? -1 : Number(token);
}

function takenOver(id: string): SandboxError {
  return new SandboxError(
    "SANDBOX_UNREACHABLE",
    `the sandbox ${id} was taken over by another daemon; try again`,
    { details: { reason: "moved" } },
  );
}

function stateOf(state: string): SandboxState {
  return state === "running" || state === "paused" ? state : "dead";
}
