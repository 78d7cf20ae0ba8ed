/** Images, as the SDK shows them. */
import type { ImageBody, ImageProgressBody } from "@sandkasten/protocol";
import { camelKeys } from "./camel-keys.ts";
import type { ImagePhase, ImageSource } from "./wire-names.ts";

/** An image that sandboxes can be made of. */
export interface ImageInfo {
  readonly reference: string;
  readonly digest: string;
  readonly source: ImageSource;
  readonly sizeBytes: number;
  readonly createdAt: string;
}

/** How far the getting of an image is, in bytes. */
export interface ImageProgress {
  readonly phase: ImagePhase;
  readonly done: number;
  readonly total?: number | undefined;
}

/** What the removal of unused images gained. */
export interface CollectedImages {
  readonly removed: number;
  readonly freedBytes: number;
}

export function toImageInfo(body: ImageBody): ImageInfo {
  return camelKeys(body);
}

export function toImageProgress(body: ImageProgressBody): ImageProgress {
  return camelKeys(body);
}
