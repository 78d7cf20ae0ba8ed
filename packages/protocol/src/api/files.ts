/** Files, as the HTTP API speaks of them; the same for sessions and workspaces. */
import { z } from "zod";
import {
  count,
  countInQuery,
  pageSizeInQuery,
  filePath,
  flagInQuery,
  plainText,
  rawFilePath,
  unicodeText,
} from "./common.ts";

const permissionBits = z.number().int().min(0).max(0o7777);
/** As in `chmod`: octal digits. */
const modeInQuery = z
  .string()
  .regex(/^[0-7]{3,4}$/, "must be octal, like 644")
  .transform((text) => Number.parseInt(text, 8));

/** A path is given in one of two ways; the daemon refuses both and none. */
const place = { path: filePath.optional(), raw_path: rawFilePath.optional() };
const either = (...names: readonly string[]): Record<string, unknown> => ({
  anyOf: names.map((name) => ({ required: [name] })),
});
/** How an answer names a path. */
const named = {
  path: z.string(),
  raw_path: z.string().optional().meta({ description: "base64 of a path that is not UTF-8" }),
};
const etag = z.string().meta({ description: "Changes whenever the content does" });
const etagToMatch = z.string().min(1).max(258).meta({
  description: "Fail with `FILE_CHANGED` unless the file still has this `etag`",
});

export const writeFileSchema = z
  .object({
    ...place,
    text: unicodeText.optional(),
    content_base64: z.base64().optional(),
    contents: unicodeText.optional().meta({ description: "The same as `text`" }),
    contents_b64: z.base64().optional().meta({ description: "The same as `content_base64`" }),
    mode: permissionBits.optional(),
    overwrite: z
      .boolean()
      .optional()
      .meta({ description: "true when absent; false refuses to replace a file" }),
    append: z
      .boolean()
      .optional()
      .meta({ description: "Add the content to the end of the file, all of it or nothing" }),
    if_match: etagToMatch.optional(),
  })
  .meta({ id: "WriteFile", ...either("path", "raw_path") });
export type WriteFileBody = z.input<typeof writeFileSchema>;

export const writtenFileSchema = z.object({
  ok: z.literal(true),
  ...named,
  size: count.meta({ description: "Of the whole file" }),
  size_bytes: count,
  etag,
});
export const uploadQuery = z.object({
  path: filePath.optional().meta({
    description: "The directory; also a field of the form. /workspace when absent",
  }),
  raw_path: rawFilePath.optional(),
});
export const uploadedSchema = z.object({
  ok: z.literal(true),
  paths: z.array(z.string()),
  raw_paths: z
    .array(z.string())
    .optional()
    .meta({ description: "The same paths as base64, when one of them is not UTF-8" }),
});

export const readFileQuery = z.object({
  ...place,
  max_bytes: countInQuery.optional().meta({ description: "1 MiB when absent; at most 16 MiB" }),
});
export const readFileSchema = z.object({
  ...named,
  content_base64: z.string(),
  truncated: z.boolean(),
  size: count.meta({ description: "Of the whole file" }),
  size_bytes: count,
  etag,
});

export const filePathQuery = z.object(place);
export const downloadQuery = z.object({
  ...place,
  real_path: flagInQuery.optional().meta({
    description:
      "Adds the header `X-Sandkasten-Real-Path`: where the file is without links, percent-encoded",
  }),
});
export const statQuery = z.object({
  ...place,
  follow: flagInQuery
    .optional()
    .meta({ description: "Describe what a link leads to instead of the link" }),
});
export const putFileQuery = z.object({
  ...place,
  mode: modeInQuery.optional(),
  overwrite: flagInQuery.optional(),
  append: flagInQuery.optional(),
  if_match: etagToMatch.optional(),
});

export const fileEntryBodySchema = z
  .object({
    ...named,
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
    etag,
    unreadable: z
      .literal(true)
      .optional()
      .meta({ description: "The directory cannot be read: a recursive list has nothing of it" }),
  })
  .meta({ id: "FileEntry" });
export type FileEntryBody = z.output<typeof fileEntryBodySchema>;

export const listFilesQuery = z.object({
  ...place,
  recursive: flagInQuery.optional(),
  limit: pageSizeInQuery.optional(),
  cursor: z.string().min(1).max(131_072).optional(),
});
export const fileListSchema = z.object({
  ...named,
  entries: z.array(fileEntryBodySchema),
  next_cursor: z.string().optional(),
});

export const makeDirectorySchema = z
  .object({
    ...place,
    mode: permissionBits.optional(),
    parents: z.boolean().optional().meta({ description: "true when absent" }),
  })
  .meta(either("path", "raw_path"));
const fromAndTo = {
  from: filePath.optional(),
  raw_from: rawFilePath.optional(),
  to: filePath.optional(),
  raw_to: rawFilePath.optional(),
};
const bothEnds = {
  allOf: [either("from", "raw_from"), either("to", "raw_to")],
};
export const moveFileSchema = z
  .object({
    ...fromAndTo,
    overwrite: z.boolean().optional(),
  })
  .meta(bothEnds);
export const copyFileSchema = z
  .object({
    ...fromAndTo,
    overwrite: z
      .boolean()
      .optional()
      .meta({ description: "true replaces a file, or a directory that is empty" }),
    recursive: z.boolean().optional().meta({ description: "Copy a directory with all below it" }),
  })
  .meta(bothEnds);
export const copiedFilesSchema = z.object({
  ok: z.literal(true),
  ...named,
  entries: count,
  bytes: count,
  skipped: count.meta({ description: "Pipes, sockets and devices, which are not copied" }),
});
export const removeFileQuery = z.object({
  ...place,
  recursive: flagInQuery.optional(),
});
export const removedFileSchema = z.object({
  ok: z.literal(true),
  deleted: z.string(),
  ...named,
});
export const pathBodySchema = z.object({ ok: z.literal(true), ...named });
export const watchQuery = z.object({
  ...place,
  recursive: flagInQuery.optional(),
});
export const fileChangeSchema = z.object({
  kind: z.enum(["create", "modify", "remove", "move", "overflow"]),
  ...named,
});
export type FileChangeBody = z.output<typeof fileChangeSchema>;
export const untarQuery = z.object(place);
const pattern = plainText(1024).min(1);
export const tarQuery = z.object({
  ...place,
  exclude: z
    .union([pattern.transform((one) => [one]), z.array(pattern).max(100)])
    .optional()
    .meta({
      description:
        "Leave out what matches; may be repeated. `*`, `?`, `[a-z]` and `**` as in a .gitignore: without a `/` a pattern is for names anywhere, with one for paths below the directory, with one at the end for directories only",
    }),
  on_unreadable: z.enum(["fail", "skip"]).optional().meta({
    description:
      "What to do about entries that cannot be read: `fail`, or `skip` them and count them in the header `X-Sandkasten-Unreadable`. `fail` when absent",
  }),
});
export const extractedSchema = z.object({ ok: z.literal(true), entries: count, bytes: count });
