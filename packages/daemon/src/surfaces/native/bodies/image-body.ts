/** Converts images to the API's format. */
import type { ImageBody, ImageProgressBody } from "@sandkasten/protocol";
import type { ImageInfo, ImageProgress } from "../../../ports/image-store.ts";
import { isoTime } from "./session-body.ts";

export function imageBody(image: ImageInfo): ImageBody {
  return {
    reference: image.reference,
    digest: image.digest,
    source: image.source,
    size_bytes: image.sizeBytes,
    shared: image.shared,
    created_at: isoTime(image.createdAtMs),
  };
}

export function progressBody({ phase, done, total }: ImageProgress): ImageProgressBody {
  return { phase, done, ...(total !== undefined && { total }) };
}
