/** Tells of which images a sandbox can have a volume at /var/tmp. */
import { VAR_TMP_PATH } from "../container/paths.ts";
import type { Engine } from "./engine.ts";
import { withIdleContainer } from "./idle-container.ts";
import type { IdleContainer } from "./idle-container.ts";

export class VarTmpCheck {
  readonly #engine: Engine;
  /** Images do not change; each is looked at once. */
  readonly #isPlain = new Map<string, boolean>();

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  /**
   * SECURITY: against linked mount points: small systems often link /var/tmp to /tmp, so a link is no
   * reason to refuse the image, but nothing is mounted where an image leads to. Guarded by
   * docker-var-tmp.test.ts.
   */
  async canMount(idle: IdleContainer): Promise<boolean> {
    const known = this.#isPlain.get(idle.imageId);
    if (known !== undefined) return known;
    // In a container that has nothing mounted there, so that the image itself is looked at.
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
