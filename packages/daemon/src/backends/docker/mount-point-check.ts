/** Checks that a sandbox's mounts are mounted where they should be. */
import { SandboxError } from "@sandkasten/protocol";
import { MOUNT_POINTS } from "./container-settings.ts";
import type { Engine } from "./engine.ts";

export class MountPointCheck {
  readonly #engine: Engine;
  /** Images do not change, so each is checked once. */
  readonly #good = new Set<string>();

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  /**
   * SECURITY: against linked mount points: an image whose /dev is a link made an older runc write
   * to its target, as the machine's root. The container was created, but not started yet. Guarded
   * by docker-hostile.test.ts.
   */
  async check(container: string, imageId: string, further: readonly string[]): Promise<void> {
    // Mount points of this sandbox only, with all their parents.
    const paths = new Set(further.flatMap(withParents));
    if (!this.#good.has(imageId)) for (const path of MOUNT_POINTS) paths.add(path);
    const wrong = await Promise.all(
      [...paths].map(async (path) => {
        const { kind } = await this.#engine.lookAt(container, path);
        return kind === "directory" || kind === "missing" ? [] : [path];
      }),
    );
    if (wrong.flat().length > 0)
      throw new SandboxError(
        "INVALID_IMAGE",
        `the image cannot be used: ${wrong.flat().join(", ")} must be a directory or missing in it`,
      );
    this.#good.add(imageId);
  }
}

function withParents(path: string): string[] {
  const parts = path.split("/").slice(1);
  return parts.map((_, index) => `/${parts.slice(0, index + 1).join("/")}`);
}
