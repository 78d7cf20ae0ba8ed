/** Names for the roots of sessions, given so that a daemon which stands still cannot move a name back. */
import { randomBytes } from "node:crypto";
import { SandboxError } from "@sandkasten/protocol";
import { parseReference } from "../../../images/reference.ts";
import type { ImageReference } from "../../../images/reference.ts";
import type { ImageOrigin } from "../../../ports/image-store.ts";
import type { EngineImage, EngineImages } from "./engine-images.ts";
import { engineRepository } from "./image-names.ts";

const REPOSITORY = "docker.io/library/sandkasten-commit";
/** No commit takes this long. */
const LEFT_AFTER_MS = 86_400_000;

export class CommittedImages {
  readonly #engine: EngineImages;

  constructor(engine: EngineImages) {
    this.#engine = engine;
  }

  /** Whether it is a name that an image has until it gets its own. */
  isTemporary({ repository }: ImageReference): boolean {
    return repository === parseReference(REPOSITORY).repository;
  }

  /**
   * SECURITY: an engine knows no fencing tokens, and a daemon can stand still between its last check
   * and the engine's answer. So an image first has a temporary name, and the engine moves the wanted
   * name only while that one exists. The next import from the session removes it (threat: a stalled
   * daemon). Guarded by docker-imports.test.ts.
   */
  async add(
    wanted: ImageReference,
    { sessionId, check }: ImageOrigin,
    work: (temporary: ImageReference) => Promise<void>,
  ): Promise<void> {
    const temporary = parseReference(
      `${REPOSITORY}:${sessionId}-${randomBytes(4).toString("hex")}`,
    );
    try {
      await work(temporary);
      await check();
      for (const name of await this.#names())
        if (name.tag?.startsWith(`${sessionId}-`) === true && name.tag !== temporary.tag)
          await this.#engine.remove(engineNameOf(name));
      if ((await this.#engine.tag(engineNameOf(temporary), wanted)) === "done") return;
      await check();
      throw new SandboxError(
        "CONFLICT",
        `A newer image of the session ${sessionId} was committed meanwhile, so ${wanted.canonical} was not changed. Try again if this one is wanted.`,
      );
    } finally {
      await this.#engine.remove(engineNameOf(temporary));
    }
  }

  /** Removes temporary names that daemons left when they died. */
  async tidy(): Promise<void> {
    for (const name of await this.#names()) {
      const image = await this.#engine.find(engineNameOf(name));
      if (image !== undefined && image.createdAtMs < Date.now() - LEFT_AFTER_MS)
        await this.#engine.remove(engineNameOf(name));
    }
  }

  async #names(): Promise<readonly ImageReference[]> {
    const images: readonly EngineImage[] = await this.#engine.list("all");
    return images.flatMap(({ tags }) => tags.filter((tag) => this.isTemporary(tag)));
  }
}

function engineNameOf(reference: ImageReference): string {
  return `${engineRepository(reference)}:${reference.tag}`;
}
