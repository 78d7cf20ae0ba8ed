/** Persistent workspaces: labelled volumes, independent of the sandboxes' workspace strategy. */
import { SandboxError } from "@sandkasten/protocol";
import type { WorkspaceListing, WorkspaceSpec } from "../../ports/backend.ts";
import type { MountSource } from "./container-settings.ts";
import type { Engine } from "./engine.ts";
import { LABEL } from "./sandbox-labels.ts";

export class PersistentWorkspaces {
  readonly #engine: Engine;
  readonly #instance: string;

  constructor(engine: Engine, instance: string) {
    this.#engine = engine;
    this.#instance = instance;
  }

  /** An existing volume keeps its labels, and so its size. */
  async make({ id, diskBytes }: WorkspaceSpec): Promise<MountSource> {
    const { name, labels } = await this.#engine.createVolume(nameOf(id), {
      [LABEL.instance]: this.#instance,
      [LABEL.workspaceId]: id,
      [LABEL.diskBytes]: String(diskBytes),
    });
    // SECURITY: against reaching another sandbox: a volume of that name from another daemon must
    // not be exposed.
    if (labels[LABEL.instance] !== this.#instance)
      throw new SandboxError("CONFLICT", `the volume ${name} belongs to another daemon`);
    return { kind: "volume", name };
  }

  async list(): Promise<WorkspaceListing[]> {
    const volumes = await this.#engine.listVolumes({
      [LABEL.instance]: this.#instance,
      [LABEL.workspaceId]: "",
    });
    return volumes.map(({ labels }) => ({
      id: labels[LABEL.workspaceId] ?? "",
      diskLimitBytes: Number(labels[LABEL.diskBytes]),
    }));
  }

  async destroy(id: string): Promise<void> {
    const volume = await this.#engine.inspectVolume(nameOf(id));
    if (volume === undefined || volume.labels[LABEL.instance] !== this.#instance) return;
    if ((await this.#engine.removeVolume(volume.name)) !== "in use") return;
    const users = await this.#engine.listContainers({
      [LABEL.instance]: this.#instance,
      [LABEL.workspaceId]: id,
    });
    const sandboxes = users.map(({ labels }) => labels[LABEL.sessionId] ?? "");
    throw new SandboxError(
      "CONFLICT",
      sandboxes.length === 0
        ? `the workspace ${id} is in use by a container of another program; remove it first`
        : `the workspace ${id} is in use by ${sandboxes.join(", ")}; destroy these sandboxes first`,
      { details: { sandboxes } },
    );
  }
}

function nameOf(id: string): string {
  return `sandkasten-workspace-${id}`;
}
