/** Converts an engine's image to the image store's format. */
import { parseConfig } from "../../../images/oci-manifest.ts";
import type { ImageInfo } from "../../../ports/image-store.ts";
import { SOURCE_LABEL } from "./engine-images.ts";
import type { EngineImageDetails } from "./engine-images.ts";

export function infoOf(
  reference: string,
  image: EngineImageDetails,
  include: { readonly env: boolean } = { env: true },
): ImageInfo {
  const { id, labels, digests, sizeBytes, createdAtMs, env } = image;
  return {
    reference,
    digest: id,
    source:
      labels[SOURCE_LABEL] !== undefined
        ? "rootfs"
        : digests.length > 0
          ? "registry"
          : "oci-archive",
    sizeBytes,
    createdAtMs,
    shared: true,
    // An image with an invalid environment must not break the whole list.
    env: include.env ? parseConfig({ config: { Env: env } }, "").env : {},
  };
}
