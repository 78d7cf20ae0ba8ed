/** Files, as the HTTP API speaks of them; the same for sessions and workspaces. */
import { z } from "zod";
import { count, countInQuery, filePath, flagInQuery } from "./common.ts";

const permissionBits = z.number().int().min(0).max(0o7777);
/** As in `chmod`: octal digits. */
const modeInQuery = z
  .string()
  .regex(/^[0-7]{3,4}$/, "must be octal, like 644")
  .transform((text) => Number.parseInt(text, 8));

export const writeFileSchema = z
  .strictObject({
    path: filePath,
    text: z.string().optional(),
    content_base64: z.base64().optional(),
    contents: z.string().optional().meta({ description: "The same as `text`" }),
    contents_b64: z.base64().optional().meta({ description: "The same as `content_base64`" }),
    mode: permissionBits.optional(),
    overwrite: z
      .boolean()
      .optional()
      .meta({ description: "true when absent; false refuses to replace a file" }),
  })
  .meta({ id: "WriteFile" });
export type WriteFileBody = z.input<typeof writeFileSchema>;

export const writtenFileSchema = z.object({
  ok: z.literal(true),
  path: z.string(),
  size: count,
  size_bytes: count,
});
export const uploadQuery = z.strictObject({
  path: filePath.optional().meta({
    description: "The directory; also a field of the form. /workspace when absent",
  }),
});
export const uploadedSchema = z.object({ ok: z.literal(true), paths: z.array(z.string()) });

export const readFileQuery = z.strictObject({
  path: filePath,
  max_bytes: countInQuery.optional().meta({ description: "1 MiB when absent; at most 16 MiB" }),
});
export const readFileSchema = z.object({
  path: z.string(),
  content_base64: z.string(),
  truncated: z.boolean(),
  size: count.meta({ description: "Of the whole file" }),
  size_bytes: count,
});

export const filePathQuery = z.strictObject({ path: filePath });
export const putFileQuery = z.strictObject({
  path: filePath,
  mode: modeInQuery.optional(),
  overwrite: flagInQuery.optional(),
});

export const fileEntryBodySchema = z
  .object({
    path: z.string(),
    name: z.string(),
    type: z.enum(["file", "dir", "symlink", "other"]),
    is_dir: z.boolean(),
    size: count,
    size_bytes: count,
    mode: permissionBits,
    mtime_unix: z.number(),
    uid: z.number().int(),
    gid: z.number().int(),
    target: z.string().optional(),
    raw_path: z.string().optional().meta({ description: "base64 of a path that is not UTF-8" }),
  })
  .meta({ id: "FileEntry" });
export type FileEntryBody = z.output<typeof fileEntryBodySchema>;

export const listFilesQuery = z.strictObject({
  path: filePath.optional(),
  recursive: flagInQuery.optional(),
  limit: countInQuery.pipe(z.number().min(1).max(1000)).optional(),
  cursor: z.string().max(131_072).optional(),
});
export const fileListSchema = z.object({
  path: z.string(),
  entries: z.array(fileEntryBodySchema),
  next_cursor: z.string().optional(),
});

export const makeDirectorySchema = z.strictObject({
  path: filePath,
  mode: permissionBits.optional(),
  parents: z.boolean().optional().meta({ description: "true when absent" }),
});
export const moveFileSchema = z.strictObject({
  from: filePath,
  to: filePath,
  overwrite: z.boolean().optional(),
});
export const removeFileQuery = z.strictObject({
  path: filePath,
  recursive: flagInQuery.optional(),
});
export const removedFileSchema = z.object({
  ok: z.literal(true),
  deleted: z.string(),
  path: z.string(),
});
export const pathBodySchema = z.object({ ok: z.literal(true), path: z.string() });
export const watchQuery = z.strictObject({
  path: filePath.optional(),
  recursive: flagInQuery.optional(),
});
export const fileChangeSchema = z.object({
  kind: z.enum(["create", "modify", "remove", "move", "overflow"]),
  path: z.string(),
});
export type FileChangeBody = z.output<typeof fileChangeSchema>;
export const tarQuery = z.strictObject({ path: filePath.optional() });
export const extractedSchema = z.object({ ok: z.literal(true), entries: count, bytes: count });
