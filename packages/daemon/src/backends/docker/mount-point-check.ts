/** Looks whether what is mounted into a sandbox is mounted where it should be. */
import { SandboxError } from "@sandkasten/protocol";
import { MOUNT_POINTS } from "./container-settings.ts";
import type { Engine } from "./engine.ts";

export class MountPointCheck {
  readonly #engine: Engine;
  /** Images do not change; each is looked at once. */
  readonly #good = new Set<string>();

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  /**
   * SECURITY: threat A15: an image whose /dev is a link made an older runc write to where it leads, as
   * the machine's root. The container was created and has not been started. Guarded by
   * docker-hostile.test.ts.
   */
  async check(container: string, imageId: string): Promise<void> {
    if (this.#good.has(imageId)) return;
    const kinds = await Promise.all(
      MOUNT_POINTS.map((path) => this.#engine.kindOf(container, path)),
    );
    const wrong = MOUNT_POINTS.filter((_, index) => kinds[index] === "other");
    if (wrong.length > 0)
      throw new SandboxError(
        "INVALID_IMAGE",
        `the image cannot be used: ${wrong.join(", ")} must be a directory or missing in it`,
      );
    this.#good.add(imageId);
  }
}
