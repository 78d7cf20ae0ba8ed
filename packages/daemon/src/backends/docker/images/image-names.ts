/**
 * What the name of an image means on a Docker engine.
 *
 * A shortcut (`python`, `sandbox-runtime:python`) has two meanings: our own image of that purpose,
 * which is built on an engine and called `sandbox-runtime:base|python|node` there, and the public
 * image that the one table of shortcuts names. Ours is meant where the engine has it. It is in no
 * registry, so it is never asked for in one; where it is missing the public image takes its place.
 */
import { invalidImage } from "../../../images/image-failure.ts";
import { ownImageOf } from "../../../images/own-images.ts";
import { HOST_REFERENCE, parseReference } from "../../../images/reference.ts";
import type { ImageReference } from "../../../images/reference.ts";

export interface NamedImage {
  /** Our own image, which is meant where it is present. */
  readonly own: ImageReference | undefined;
  readonly wanted: ImageReference;
}

/**
 * SECURITY: every name that reaches the engine went through here, so that it cannot be read as
 * another call of its API or as a path (threat: hostile names). Guarded by image-names.test.ts.
 */
export function readName(name: string): NamedImage {
  const wanted = parseReference(name);
  if (wanted.canonical === HOST_REFERENCE)
    throw invalidImage(
      `"host" is the machine's own image, and sandboxes on Docker cannot be made of it. Use a shortcut (python) or the name of an image.`,
    );
  return { own: ownImageOf(wanted), wanted };
}

/**
 * The repository as only one thing can be meant by it.
 *
 * SECURITY: engines read `sha256:…` and the like as ids, by which an image could be had under a name
 * that nobody allowed; with its registry before it a name is a name (threat: hostile names). Guarded by
 * docker-image-store.test.ts.
 */
export function engineRepository({ registry, repository }: ImageReference): string {
  if (registry !== undefined) return repository;
  return repository.includes("/") ? `docker.io/${repository}` : `docker.io/library/${repository}`;
}

/** A name that the engine gave, which is no shortcut; undefined when we cannot call an image that. */
export function readEngineName(name: string): ImageReference | undefined {
  try {
    return parseReference(name.includes("/") ? name : `docker.io/${name}`);
  } catch {
    return undefined;
  }
}
