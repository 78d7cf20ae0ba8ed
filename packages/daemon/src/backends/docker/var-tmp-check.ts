/** Determines for which images a volume can be mounted at /var/tmp. */
import { VAR_TMP_PATH } from "../container/paths.ts";
import type { Engine } from "./engine.ts";
import { withIdleContainer } from "./idle-container.ts";
import type { IdleContainer } from "./idle-container.ts";

export class VarTmpCheck {
  readonly #engine: Engine;
  /** Images do not change, so each is checked once. */
  readonly #isPlain = new Map<string, boolean>();

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  /**
   * SECURITY: against linked mount points: small systems often link /var/tmp to /tmp, so a link is
   * no reason to refuse the image, but nothing is mounted through a link of an image. Guarded by
   * docker-var-tmp.test.ts.
   */
  async canMount(idle: IdleContainer): Promise<boolean> {
    const known = this.#isPlain.get(idle.imageId);
    if (known !== undefined) return known;
    // In a container with nothing mounted there, so the image itself is inspected.
    const isPlain = await withIdleContainer(this.#engine, idle, async (container) => {
      const kinds = await Promise.all(
        ["/var", VAR_TMP_PATH].map((path) => this.#engine.lookAt(container, path)),
      );
      return kinds.every(({ kind }) => kind === "directory" || kind === "missing");
    });
    this.#isPlain.set(idle.imageId, isPlain);
    return isPlain;
  }
}
