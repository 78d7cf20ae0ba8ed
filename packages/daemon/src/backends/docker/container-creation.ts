/** Creates the container of a sandbox, with its volumes or directories. */
import type { SandboxSpec } from "../../ports/backend.ts";
import type { ImageInfo, ImageStore } from "../../ports/image-store.ts";
import { throwIfCancelled } from "../container/cancelled.ts";
import type { TrustStore } from "../container/trust-store.ts";
import { sandboxSettings } from "./container-settings.ts";
import type { Engine } from "./engine.ts";
import type { EnginePreparation } from "./engine-preparation.ts";
import { MountPointCheck } from "./mount-point-check.ts";
import type { PersistentWorkspaces } from "./persistent-workspaces.ts";
import { handleOf, sandboxLabels } from "./sandbox-labels.ts";
import type { SandboxNotes } from "./sandbox-labels.ts";
import type { DockerContainer } from "./sandbox-usage.ts";
import { trustDirectories, TrustedVolumes } from "./trusted-volumes.ts";

export interface ContainerCreationParts {
  readonly instance: string;
  readonly images: ImageStore;
  readonly runtime?: string;
  readonly network?: string;
  readonly engine: Engine;
  readonly preparation: EnginePreparation;
  readonly persistent: PersistentWorkspaces;
}

export class ContainerCreation {
  readonly #parts: ContainerCreationParts;
  readonly #mountPoints: MountPointCheck;
  readonly #trusted: TrustedVolumes;

  constructor(parts: ContainerCreationParts) {
    this.#parts = parts;
    this.#mountPoints = new MountPointCheck(parts.engine);
    this.#trusted = new TrustedVolumes(parts.engine);
  }

  /** Resolves with a function that creates and starts it. */
  async prepare(spec: SandboxSpec, signal: AbortSignal): Promise<() => Promise<DockerContainer>> {
    const image = await this.#parts.images.inspect(spec.image);
    return async () => {
      const { containerId, notes, store } = await this.#createContainer(spec, image, signal);
      const further = (spec.workspaces ?? []).map(({ path }) => path);
      const copied = trustDirectories(store, spec);
      await this.#mountPoints.check(spec.id, image.digest, [...further, ...copied]);
      await this.#trusted.fill(spec.id, store, spec);
      throwIfCancelled(signal);
      await this.#parts.engine.startContainer(spec.id);
      const { id } = spec;
      return { handle: handleOf(id, notes), containerId, name: id, notes, outOfMemory: false };
    };
  }

  async #createContainer(
    spec: SandboxSpec,
    image: ImageInfo,
    signal: AbortSignal,
  ): Promise<{
    readonly containerId: string;
    readonly notes: SandboxNotes;
    readonly store: TrustStore | undefined;
  }> {
    const { instance, runtime, network } = this.#parts;
    const { places, ...prepared } = await this.#parts.preparation.prepare(image.digest);
    const store = await this.#trusted.storeFor(
      spec,
      this.#parts.preparation.idleContainer(image.digest),
    );
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
        : await this.#parts.persistent.make(spec.workspace);
    const workspaces = await Promise.all(
      (spec.workspaces ?? []).map(async (further) => ({
        source: await this.#parts.persistent.make(further),
        path: further.path,
        readOnly: further.readOnly,
      })),
    );
    throwIfCancelled(signal);
    const containerId = await this.#parts.engine.createContainer(
      sandboxSettings({
        ...prepared,
        spec,
        imageId: image.digest,
        imageEnv: image.env,
        labels: sandboxLabels(instance, spec.id, notes),
        ownLabels,
        workspace,
        workspaces,
        copiedDirectories: trustDirectories(store, spec),
        runtime,
        network,
      }),
    );
    throwIfCancelled(signal);
    return { containerId, notes, store };
  }
}
