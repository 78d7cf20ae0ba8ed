/** Images of what sessions have become. */
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
        summary: "Create an image of what a session has become",
        description:
          "Needs the profile `root` and an image other than `host`. The image has the session's root without what is mounted there: `/workspace`, `/home/sandbox`, `/tmp`, `/run` and workspaces. All files belong to root. The session goes on; what it changes meanwhile may or may not be in the image. The image belongs to the caller, as an imported one does.",
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
