/** Images in the SDK. */
import type { ImageBody, ImageProgressBody } from "@sandkasten/protocol";
import { camelKeys } from "./camel-keys.ts";
import { type WithSnakeNames, withSnakeNames } from "./snake-names.ts";
import type { ImagePhase, ImageSource } from "./wire-names.ts";

interface ImageFields {
  readonly reference: string;
  readonly digest: string;
  readonly source: ImageSource;
  readonly sizeBytes: number;
  /** The administrator shares it with all keys; otherwise it is your own. Absent from older daemons. */
  readonly shared?: boolean;
  readonly createdAt: string;
}

/** An image that sandboxes can be created from. */
export type ImageInfo = WithSnakeNames<ImageFields>;

/** Progress of a pull or import, in bytes. */
export interface ImageProgress {
  readonly phase: ImagePhase;
  readonly done: number;
  readonly total?: number | undefined;
}

interface CollectedImagesFields {
  readonly removed: number;
  readonly freedBytes: number;
}

/** The result of removing unused images. */
export type CollectedImages = WithSnakeNames<CollectedImagesFields>;

export function toImageInfo(body: ImageBody): ImageInfo {
  return withSnakeNames(camelKeys(body));
}

export function toImageProgress(body: ImageProgressBody): ImageProgress {
  return camelKeys(body);
}
