/** Imports images that are sent to the daemon. */
import { imageSchema, importImageQuery, SandboxError } from "@sandkasten/protocol";
import type { ImageInfo, Images } from "../../../../ports/image-store.ts";
import { errors } from "../../openapi/documented-responses.ts";
import { imageBody } from "../../bodies/image-body.ts";
import { bodyBytes } from "../../../http/bodies/byte-body.ts";
import type { App } from "../../../http/app.ts";
import type { NativeContext } from "../../context.ts";
import { withArchiveOnDisk } from "./archive-on-disk.ts";

const IMPORTS_AT_ONCE = 4;

/** The scope must leave bodies unread. */
export function imageImportRoutes(app: App, context: NativeContext): void {
  const { services, limits, stallTimeoutMs, uploadDir } = context;
  const running = new Map<string, number>();

  /**
   * SECURITY: an upload in progress does not count against a quota yet (threat: filling a disk).
   * Guarded by image-owners.test.ts.
   */
  function takePlace(owner: string): Disposable {
    const before = running.get(owner) ?? 0;
    if (before >= IMPORTS_AT_ONCE)
      throw new SandboxError(
        "QUOTA_EXCEEDED",
        `A key can import at most ${IMPORTS_AT_ONCE} images at a time; try again when one of them is done.`,
      );
    running.set(owner, before + 1);
    return {
      [Symbol.dispose]: () => {
        const left = (running.get(owner) ?? 1) - 1;
        if (left > 0) running.set(owner, left);
        else running.delete(owner);
      },
    };
  }

  app.post(
    "/images/import",
    {
      config: { body: "bytes" },
      schema: {
        tags: ["images"],
        summary: "Import an image, sent as the body: a root file system or an OCI archive",
        consumes: ["application/x-tar"],
        querystring: importImageQuery,
        response: {
          200: imageSchema,
          ...errors(
            "INVALID_IMAGE",
            "CONFLICT",
            "PAYLOAD_TOO_LARGE",
            "QUOTA_EXCEEDED",
            "STORAGE_FULL",
          ),
        },
      },
    },
    async (request) => {
      const { reference, format = "rootfs", backend } = request.query;
      const { caller } = request;
      const images = services.imagesOf(caller, backend);
      using _place = takePlace(caller.owner);
      const quotaBytes = caller.isAdmin ? Infinity : caller.maxImageBytes;
      const maxBytes = Math.min(limits.maxUploadBytes, quotaBytes);
      const bytes = bodyBytes(request.body, { maxBytes, stallTimeoutMs });
      try {
        const image = await withArchiveOnDisk(uploadDir, bytes, "that was sent", (archive) =>
          importArchive(images, reference, format, archive),
        );
        return imageBody(image);
      } catch (error) {
        throw isTooLarge(error) && maxBytes === quotaBytes ? overQuota(quotaBytes) : error;
      }
    },
  );

  async function importArchive(
    images: Images,
    reference: string,
    format: "rootfs" | "oci-archive",
    archive: string,
  ): Promise<ImageInfo> {
    return format === "rootfs"
      ? await images.importRootfs(reference, archive)
      : await images.importOciArchive(reference, archive);
  }
}

function isTooLarge(error: unknown): boolean {
  return error instanceof SandboxError && error.code === "PAYLOAD_TOO_LARGE";
}

function overQuota(maxBytes: number): SandboxError {
  return new SandboxError(
    "QUOTA_EXCEEDED",
    `The archive exceeds the disk space for all images of this key, ${maxBytes} bytes.`,
    { details: { max_image_bytes: maxBytes } },
  );
}
