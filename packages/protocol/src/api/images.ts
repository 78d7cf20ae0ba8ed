/** Images in the HTTP API. */
import { z } from "zod";
import { backendName, count, timestamp } from "./common.ts";

const reference = z.string().min(1).max(512);

export const imageSchema = z
  .object({
    reference: z.string(),
    digest: z.string(),
    source: z.enum(["host", "rootfs", "oci-archive", "registry"]),
    size_bytes: count,
    shared: z.boolean().meta({
      description:
        "true if the administrator shares it with all keys, false if it belongs to the caller",
    }),
    created_at: timestamp,
  })
  .meta({ id: "Image" });
export type ImageBody = z.output<typeof imageSchema>;
export const imageListSchema = z.object({ images: z.array(imageSchema) });

const backend = backendName.optional().meta({
  description: "The backend that stores the images. The default backend if absent",
});
export const imagesQuery = z.object({ backend });
export const pullImageSchema = z.object({ reference, backend });
export const imageReferenceQuery = z.object({ reference, backend });
export const importImageQuery = z.object({
  reference,
  backend,
  format: z.enum(["rootfs", "oci-archive"]).optional().meta({ description: "Default rootfs" }),
});
export const commitSchema = z.object({
  reference: reference.meta({ description: "The name of the new image, as in `my-tools:1`" }),
});
const imageProgressSchema = z.object({
  phase: z.enum(["download", "unpack"]),
  done: count,
  total: count.optional(),
});
export type ImageProgressBody = z.output<typeof imageProgressSchema>;
export const collectedSchema = z.object({
  ok: z.literal(true),
  removed: count,
  freed_bytes: count,
});

export const healthSchema = z.object({ status: z.literal("ok") });
export const versionSchema = z.object({
  version: z.string(),
  backend: z.string().meta({ description: "The default backend" }),
  backends: z.array(z.string()).meta({ description: "All backends that sessions can use" }),
  node: z.string(),
});
