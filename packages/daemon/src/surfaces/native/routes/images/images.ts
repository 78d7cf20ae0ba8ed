/** Lists, pulls, deletes and garbage-collects images. */
import {
  collectedSchema,
  imageListSchema,
  imageReferenceQuery,
  imagesQuery,
  imageSchema,
  okSchema,
  pullImageSchema,
} from "@sandkasten/protocol";
import type { FastifyReply } from "fastify";
import type { ImageInfo, ImageProgress, Images } from "../../../../ports/image-store.ts";
import { errors } from "../../openapi/documented-responses.ts";
import { imageBody, progressBody } from "../../bodies/image-body.ts";
import type { App } from "../../../http/app.ts";
import type { NativeContext } from "../../context.ts";
import { EventStream } from "../../../http/responses/event-stream.ts";
import { NewestValue } from "../../../http/responses/newest-value.ts";

const tags = ["images"];

export function imageRoutes(app: App, context: NativeContext): void {
  const { services } = context;

  app.get(
    "/images",
    {
      schema: {
        tags,
        summary: "List local images",
        querystring: imagesQuery,
        response: { 200: imageListSchema, ...errors("INVALID_REQUEST", "ENGINE_UNREACHABLE") },
      },
    },
    async ({ caller, query }) => ({
      images: (await services.imagesOf(caller, query.backend).list()).map(imageBody),
    }),
  );

  app.post(
    "/images/pull",
    {
      schema: {
        tags,
        summary: "Pull an image from a registry",
        description:
          "With `Accept: text/event-stream`, the response is a stream of events: `progress` with `phase`, `done` and `total`, then `done` with the image, or `error`. A pull continues when its client disconnects.",
        body: pullImageSchema,
        response: {
          200: imageSchema,
          ...errors(
            "INVALID_IMAGE",
            "QUOTA_EXCEEDED",
            "STORAGE_FULL",
            "UNSUPPORTED",
            "ENGINE_UNREACHABLE",
            "REGISTRY_UNREACHABLE",
          ),
        },
      },
    },
    async (request, reply) => {
      const { reference, backend } = request.body;
      const images = services.imagesOf(request.caller, backend);
      if (!wantsEvents(request.headers.accept)) return imageBody(await images.pull(reference));
      await pullWithProgress(reply, images, reference);
      return undefined;
    },
  );

  app.delete(
    "/images",
    {
      schema: {
        tags,
        summary: "Delete an image by its reference. Sandboxes that use it continue",
        querystring: imageReferenceQuery,
        response: { 200: okSchema, ...errors("INVALID_IMAGE", "CONFLICT", "ENGINE_UNREACHABLE") },
      },
    },
    async ({ caller, query }) => {
      await services.imagesOf(caller, query.backend).remove(query.reference);
      return { ok: true as const };
    },
  );

  app.post(
    "/images/gc",
    {
      schema: {
        tags,
        summary: "Delete image data that is no longer used",
        querystring: imagesQuery,
        response: { 200: collectedSchema, ...errors("INVALID_REQUEST", "ENGINE_UNREACHABLE") },
      },
    },
    async ({ caller, query }) => {
      const { removed, freedBytes } = await services.collectImages(caller, query.backend);
      return { ok: true as const, removed, freed_bytes: freedBytes };
    },
  );

  async function pullWithProgress(
    reply: FastifyReply,
    images: Images,
    reference: string,
  ): Promise<void> {
    await EventStream.serve(reply, context, async (stream) => {
      const progress = new NewestValue<ImageProgress>();
      const pulled: Promise<ImageInfo> = images
        .pull(reference, (news) => progress.set(news))
        .finally(() => progress.end());
      // The loop may end first if the client disconnects; a failure is reported below in any case.
      pulled.catch(() => undefined);
      for await (const news of progress) await stream.send("progress", progressBody(news));
      await stream.send("done", imageBody(await pulled));
    });
  }
}

function wantsEvents(accept: string | undefined): boolean {
  return accept?.includes("text/event-stream") === true;
}
