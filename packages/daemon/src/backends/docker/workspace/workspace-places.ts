/** Where sandboxes' workspaces are stored, by strategy. In every case, file calls go through the runner. */
import type { Engine } from "../engine.ts";
import type { Labels } from "../engine-view.ts";
import type { MountSource } from "../container-settings.ts";
import type { StrategyName } from "../sandbox-labels.ts";
import type { SessionDirectories } from "./session-directories.ts";

export interface WorkspacePlaces {
  readonly strategy: StrategyName;
  /** Creates the place for a new sandbox's workspace. */
  make(id: string, labels: Labels): Promise<MountSource>;
}

/** A volume for each sandbox, stored by the engine. */
export class VolumePlaces implements WorkspacePlaces {
  readonly strategy = "volume";
  readonly #engine: Engine;

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  async make(id: string, labels: Labels): Promise<MountSource> {
    const { name } = await this.#engine.createVolume(`station-sandbox-${id}`, labels);
    return { kind: "volume", name };
  }
}

/** Only the container: an unnamed volume, which is removed with it. */
export class ContainerPlaces implements WorkspacePlaces {
  readonly strategy = "exec";
  readonly #engine: Engine;

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  async make(_id: string, labels: Labels): Promise<MountSource> {
    // Created beforehand, because it is mounted in two places.
    const { name } = await this.#engine.createVolume(undefined, labels);
    return { kind: "volume", name };
  }
}

/**
 * A directory for each sandbox that the daemon creates and the engine mounts.
 *
 * SECURITY: against reaching another sandbox: a sandbox gets only its own directory and nothing above
 * it, so others cannot even be named from inside. Guarded by docker-strategies.test.ts.
 */
export class DirectoryPlaces implements WorkspacePlaces {
  readonly strategy: "bind" | "shared-volume";
  readonly #directories: SessionDirectories;
  readonly #sourceOf: (name: string) => MountSource;

  constructor(
    strategy: "bind" | "shared-volume",
    directories: SessionDirectories,
    /** The engine's view of a directory with that name. */
    sourceOf: (name: string) => MountSource,
  ) {
    this.strategy = strategy;
    this.#directories = directories;
    this.#sourceOf = sourceOf;
  }

  async make(id: string): Promise<MountSource> {
    await this.#directories.make(id);
    return this.#sourceOf(id);
  }
}
