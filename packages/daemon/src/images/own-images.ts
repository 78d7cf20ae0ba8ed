/**
 * Our own images, which short names refer to if present: they are built on the machine or on the
 * engine, and are in no registry.
 */
import { shortcutTarget } from "./aliases.ts";
import { parseReference } from "./reference.ts";
import type { ImageReference } from "./reference.ts";

const OWN_IMAGES = ["sandbox-runtime:base", "sandbox-runtime:python", "sandbox-runtime:node"];

/** Keyed by the public image that substitutes for them. */
const OWN_BY_TARGET: ReadonlyMap<string | undefined, ImageReference> = new Map(
  // With its registry, the name means the image itself and is not a short name.
  OWN_IMAGES.map((name) => [shortcutTarget(name), parseReference(`docker.io/${name}`)]),
);

/** Our own image for a short name; undefined for every other name. */
export function ownImageOf({ shortcut, canonical }: ImageReference): ImageReference | undefined {
  return shortcut ? OWN_BY_TARGET.get(canonical) : undefined;
}
