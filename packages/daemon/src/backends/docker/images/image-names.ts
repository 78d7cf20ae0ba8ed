/**
 * What an image name means on a Docker engine.
 *
 * A shortcut (`python`, `sandbox-runtime:python`) has two meanings: our own image for that purpose,
 * which is built on an engine and called `sandbox-runtime:base|python|node` there, and the public
 * image in the table of shortcuts. Ours is used if the engine has it. It is in no registry, so it is
 * never pulled; if it is missing, the public image takes its place.
 */
import { invalidImage } from "../../../images/image-failure.ts";
import { ownImageOf } from "../../../images/own-images.ts";
import { HOST_REFERENCE, parseReference } from "../../../images/reference.ts";
import type { ImageReference } from "../../../images/reference.ts";

export interface NamedImage {
  /** Our own image, which is used if present. */
  readonly own: ImageReference | undefined;
  readonly wanted: ImageReference;
}

/**
 * SECURITY: every name that reaches the engine passes through here, so it cannot be interpreted as
 * another API call or as a path (threat: hostile names). Guarded by image-names.test.ts.
 */
export function readName(name: string): NamedImage {
  const wanted = parseReference(name);
  if (wanted.canonical === HOST_REFERENCE)
    throw invalidImage(
      `"host" is the machine's own image, which Docker sandboxes cannot use. Use a shortcut (python) or the name of an image.`,
    );
  return { own: ownImageOf(wanted), wanted };
}

/**
 * The unambiguous form of the repository.
 *
 * SECURITY: engines interpret `sha256:…` and similar as ids, which would give access to an image under
 * a name that is not allowed; with its registry a name is always a name (threat: hostile names).
 * Guarded by docker-image-store.test.ts.
 */
export function engineRepository({ registry, repository }: ImageReference): string {
  if (registry !== undefined) return repository;
  return repository.includes("/") ? `docker.io/${repository}` : `docker.io/library/${repository}`;
}

/** Parses a name from the engine, which is never a shortcut; undefined if we cannot use it. */
export function readEngineName(name: string): ImageReference | undefined {
  try {
    return parseReference(name.includes("/") ? name : `docker.io/${name}`);
  } catch {
    return undefined;
  }
}
