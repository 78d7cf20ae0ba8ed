/** What an engine needs before its first sandbox, created and looked up once and shared by all. */
import { SandboxError } from "@sandkasten/protocol";
import type { BackendHealth } from "../../ports/backend.ts";
import { KeyedMutex } from "../../keyed-mutex.ts";
import type { Engine } from "./engine.ts";
import type { EngineFacts } from "./engine-view.ts";
import type { IdleContainer } from "./idle-container.ts";
import { RunnerVolume } from "./runner-volume.ts";
import type { RunnerProgram } from "./runner-volume.ts";
import { LABEL } from "./sandbox-labels.ts";
import { VarTmpCheck } from "./var-tmp-check.ts";
import { choosePlaces } from "./workspace/choose-places.ts";
import type { ChosenPlaces, ChooserParts } from "./workspace/choose-places.ts";

export interface PreparedEngine {
  readonly facts: EngineFacts;
  readonly places: ChosenPlaces["places"];
  readonly mountVarTmp: boolean;
  readonly runnerVolume: string;
}

/** The key of the mutex on what all sandboxes share. */
const SHARED = "shared";

export class EnginePreparation {
  readonly #engine: Engine;
  readonly #instance: string;
  readonly #daemon: string;
  readonly #runner: RunnerProgram;
  readonly #context: ChooserParts;
  readonly #runnerVolume: RunnerVolume;
  readonly #varTmp: VarTmpCheck;
  readonly #mutex = new KeyedMutex();
  #facts: EngineFacts | undefined;
  #chosen: ChosenPlaces | undefined;

  constructor(context: ChooserParts, runner: RunnerProgram) {
    const { engine, instance, daemon } = context;
    this.#engine = engine;
    this.#instance = instance;
    this.#daemon = daemon;
    this.#runner = runner;
    this.#context = context;
    this.#runnerVolume = new RunnerVolume(engine, daemon, runner);
    this.#varTmp = new VarTmpCheck(engine);
  }

  /** Needs one of the engine's images for inspection. */
  async prepare(imageId: string): Promise<PreparedEngine> {
    return await this.#mutex.run(SHARED, async () => {
      const facts = (this.#facts ??= await this.#engine.facts());
      if (facts.architecture !== this.#runner.architecture)
        throw new SandboxError(
          "UNSUPPORTED",
          `the engine runs on ${facts.architecture}, but the runner is built for ${this.#runner.architecture}; use a daemon built for that architecture`,
        );
      await this.#runnerVolume.ensure(imageId);
      const { places } = await this.#choose(facts, imageId);
      const runnerVolume = this.#runnerVolume.name;
      const mountVarTmp = await this.#varTmp.canMount(this.idleContainer(imageId));
      return { facts, places, runnerVolume, mountVarTmp };
    });
  }

  /** A container to look at an image with, once the engine is prepared. */
  idleContainer(imageId: string): IdleContainer {
    const source = { kind: "volume", name: this.#runnerVolume.name } as const;
    return { daemon: this.#daemon, imageId, source };
  }

  /** Removes what all sandboxes of this daemon share once the last of them has gone. */
  async release(isIdle: () => boolean): Promise<void> {
    await this.#mutex.run(SHARED, async () => {
      if (!isIdle()) return;
      const labels = { [LABEL.instance]: this.#instance, [LABEL.sessionId]: "" };
      if ((await this.#engine.listContainers(labels)).length > 0) return;
      await this.#runnerVolume.removeUnused();
      // The next sandbox may find another engine here.
      this.#facts = undefined;
    });
  }

  /** The workspace strategy, for `doctor`. */
  async check(facts: EngineFacts): Promise<BackendHealth["checks"][number]> {
    const name = "workspace";
    const imageId = await this.#engine.anyImage();
    if (imageId === undefined && this.#chosen === undefined)
      return { name, ok: true, detail: "detected once the engine has an image" };
    try {
      const { places, why } = await this.#mutex.run(SHARED, () =>
        this.#choose(facts, imageId ?? ""),
      );
      return { name, ok: true, detail: `${places.strategy}: ${why}` };
    } catch (error) {
      if (!(error instanceof SandboxError) || error.code === "ENGINE_UNREACHABLE") throw error;
      return { name, ok: false, detail: error.message, remedy: "set docker.workspace to volume" };
    }
  }

  async #choose(facts: EngineFacts, imageId: string): Promise<ChosenPlaces> {
    this.#chosen ??= await choosePlaces(this.#context, facts, imageId);
    return this.#chosen;
  }
}
