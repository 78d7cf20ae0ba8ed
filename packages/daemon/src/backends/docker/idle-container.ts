/** A container that is never started, used to inspect and write to what the engine can mount. */
import { randomBytes } from "node:crypto";
import { mountOf } from "./container-settings.ts";
import type { MountSource } from "./container-settings.ts";
import type { Engine } from "./engine.ts";
import { LABEL } from "./sandbox-labels.ts";

export interface IdleContainer {
  /** The daemon that creates it, so no other daemon removes it meanwhile. */
  readonly daemon: string;
  /** Any image: nothing in it is run. */
  readonly imageId: string;
  readonly source: MountSource;
}

const ROLE = "idle";

export async function withIdleContainer<T>(
  engine: Engine,
  { daemon, imageId, source }: IdleContainer,
  /** Called with the container's name, and where in it the source is mounted. */
  act: (name: string, directory: string) => Promise<T>,
): Promise<T> {
  const unique = randomBytes(8).toString("hex");
  const name = `sandkasten-idle-${daemon}-${unique}`;
  // SECURITY: against linked mount points: at a path that no image can contain as a link.
  const directory = `/sandkasten-${unique}`;
  try {
    await engine.createContainer({
      name,
      Image: imageId,
      Entrypoint: ["never"],
      Labels: { [LABEL.instance]: daemon, [LABEL.role]: ROLE },
      HostConfig: {
        NetworkMode: "none",
        ReadonlyRootfs: true,
        Mounts: [mountOf(source, directory)],
      },
    });
    return await act(name, directory);
  } finally {
    await engine.removeContainer(name);
  }
}

/** Removes those that an earlier, killed run of this daemon left. */
export async function removeIdleContainers(engine: Engine, daemon: string): Promise<void> {
  const left = await engine.listContainers({ [LABEL.instance]: daemon, [LABEL.role]: ROLE });
  for (const { name } of left) await engine.removeContainer(name);
}
