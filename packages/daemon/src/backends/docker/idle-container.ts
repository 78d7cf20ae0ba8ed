/** A container that is never started: a way to look at, and to write, what the engine can mount. */
import { randomBytes } from "node:crypto";
import { mountOf } from "./container-settings.ts";
import type { MountSource } from "./container-settings.ts";
import type { Engine } from "./engine.ts";
import { LABEL } from "./sandbox-labels.ts";

export interface IdleContainer {
  /** Who makes it: no other daemon may remove it meanwhile. */
  readonly daemon: string;
  /** Any image: nothing of it is run. */
  readonly imageId: string;
  readonly source: MountSource;
}

const ROLE = "idle";

export async function withIdleContainer<T>(
  engine: Engine,
  { daemon, imageId, source }: IdleContainer,
  /** Is told the container's name, and where in it the source is mounted. */
  act: (name: string, directory: string) => Promise<T>,
): Promise<T> {
  const unique = randomBytes(8).toString("hex");
  const name = `sandkasten-idle-${daemon}-${unique}`;
  // SECURITY: against linked mount points: at a place that no image can have made a link of.
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

/** Removes those that an earlier run of this daemon left when it was killed. */
export async function removeIdleContainers(engine: Engine, daemon: string): Promise<void> {
  const left = await engine.listContainers({ [LABEL.instance]: daemon, [LABEL.role]: ROLE });
  for (const { name } of left) await engine.removeContainer(name);
}
