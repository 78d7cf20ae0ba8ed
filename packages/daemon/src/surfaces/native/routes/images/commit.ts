/** Creates images from sessions. */
import { commitSchema, imageSchema } from "@sandkasten/protocol";
import { errors, LIVING_ERRORS } from "../../openapi/documented-responses.ts";
import { imageBody } from "../../bodies/image-body.ts";
import type { App } from "../../../http/app.ts";
import type { NativeContext } from "../../context.ts";
import { sessionParams } from "../params.ts";
import { withArchiveOnDisk } from "./archive-on-disk.ts";

export function commitRoutes(app: App, { services, limits, uploadDir }: NativeContext): void {
  app.post(
    "/sessions/:id/commit",
    {
      schema: {
        tags: ["sessions"],
        summary: "Create an image from a session's root file system",
        description:
          "Needs the profile `root` and an image other than `host`. The image contains the session's root without its mounts: `/workspace`, `/home/sandbox`, `/tmp`, `/run` and workspaces. All files belong to root. The session keeps running; changes made meanwhile may or may not be in the image. The image belongs to the caller, like an imported one.",
        params: sessionParams,
        body: commitSchema,
        response: {
          200: imageSchema,
          ...errors(
            LIVING_ERRORS,
            "INVALID_IMAGE",
            "UNSUPPORTED",
            "QUOTA_EXCEEDED",
            "STORAGE_FULL",
            "SANDBOX_IO_ERROR",
          ),
        },
      },
    },
    async ({ caller, params, body }) => {
      const quotaBytes = caller.isAdmin ? Infinity : caller.maxImageBytes;
      const maxBytes = Math.min(limits.maxUploadBytes, quotaBytes);
      const { reference } = body;
      return imageBody(
        await services.commits.commit(caller, params.id, {
          reference,
          maxBytes,
          withArchive: (bytes, use) =>
            withArchiveOnDisk(uploadDir, bytes, `of the session ${params.id}`, use),
        }),
      );
    },
  );
}
