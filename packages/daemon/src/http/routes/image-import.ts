/** Images that are sent to the daemon. */
import { createWriteStream } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { imageSchema, importImageQuery, SandboxError } from "@sandkasten/protocol";
import type { ImageInfo, ImageStore } from "../../ports/image-store.ts";
import { errors } from "../answers.ts";
import { imageBody } from "../bodies/image-body.ts";
import { bodyBytes } from "../byte-body.ts";
import type { App, HttpContext } from "../context.ts";

/** Begins the names of directories that hold an image on its way. */
export const IMPORT_PREFIX = "import-";

/** The scope's bodies must be left unread. */
export function imageImportRoutes(app: App, context: HttpContext): void {
  const { services, limits, stallTimeoutMs, uploadDir } = context;
  app.post(
    "/images/import",
    {
      config: { body: "bytes" },
      schema: {
        tags: ["images"],
        summary: "Import an image, sent as the body: a root filesystem or an OCI archive",
        consumes: ["application/x-tar"],
        querystring: importImageQuery,
        response: {
          200: imageSchema,
          ...errors("INVALID_IMAGE", "CONFLICT", "PAYLOAD_TOO_LARGE", "STORAGE_FULL"),
        },
      },
    },
    async (request) => {
      const { reference, format = "rootfs", backend } = request.query;
      const images = services.imagesOf(backend);
      const bytes = bodyBytes(request.body, { maxBytes: limits.maxUploadBytes, stallTimeoutMs });
      const directory = await mkdtemp(join(uploadDir, IMPORT_PREFIX));
      try {
        const archive = join(directory, "archive");
        await pipeline(bytes, createWriteStream(archive, { mode: 0o600 }));
        return imageBody(await importArchive(images, reference, format, archive));
      } catch (error) {
        throw aboutTheBody(error, directory);
      } finally {
        await rm(directory, { recursive: true, force: true });
      }
    },
  );

  async function importArchive(
    images: ImageStore,
    reference: string,
    format: "rootfs" | "oci-archive",
    archive: string,
  ): Promise<ImageInfo> {
    return format === "rootfs"
      ? await images.importRootfs(reference, archive)
      : await images.importOciArchive(reference, archive);
  }
}

/** The client knows its archive as the body, not as a file of ours; nor shall it know of that. */
function aboutTheBody(error: unknown, directory: string): unknown {
  if (isFull(error))
    return new SandboxError("STORAGE_FULL", "the daemon's disk is full", { cause: error });
  if (!(error instanceof SandboxError) || !error.message.includes(directory)) return error;
  const message = error.message.replaceAll(join(directory, "archive"), "that was sent");
  return new SandboxError(error.code, message.replaceAll(directory, "(the body)"), {
    cause: error,
  });
}

function isFull(error: unknown): boolean {
  return (
    error instanceof Error &&
    "code" in error &&
    (error.code === "ENOSPC" || error.code === "EDQUOT")
  );
}
