/** Finds an engine's image for a reference. */
import type { ImageReference } from "../../../images/reference.ts";
import type { EngineImageDetails, EngineImages } from "./engine-images.ts";
import { engineRepository } from "./image-names.ts";

export interface FoundImage {
  /** As requested. */
  readonly reference: ImageReference;
  readonly image: EngineImageDetails;
  /** The engine's name for it. */
  readonly engineName: string;
}

/**
 * SECURITY: content that the engine returns for a pin is compared with the pin, as a name or as an
 * id, before it is used (threat: hostile archives and images). Guarded by
 * docker-image-store.test.ts.
 */
export async function findImage(
  engine: EngineImages,
  reference: ImageReference,
): Promise<FoundImage | undefined> {
  const { repository, tag, digest } = reference;
  const asked = engineRepository(reference);
  if (digest === undefined) {
    const engineName = `${asked}:${tag}`;
    const image = await engine.find(engineName);
    return image && { reference, image, engineName };
  }
  const engineName = `${asked}@${digest}`;
  const byDigest = await engine.find(engineName);
  const isSame = (name: ImageReference): boolean =>
    name.repository === repository && name.digest === digest;
  if (byDigest?.digests.some(isSame) === true) return { reference, image: byDigest, engineName };

  const image = await engine.find(digest);
  const name = image?.tags.find(
    (known) => known.repository === repository && (tag === undefined || known.tag === tag),
  );
  if (image?.id !== digest || name === undefined) return undefined;
  return { reference, image, engineName: `${asked}:${name.tag}` };
}
