/** Files in the HTTP API; the same for sessions and workspaces. */
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
/** Clients that cannot omit numbers send 0, and a file that cannot be opened is useless. */
const modeToSet = permissionBits
  .meta({ description: "0 or absent means the default" })
  .transform((mode) => (mode === 0 ? undefined : mode));
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
/** A path in a response. */
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
    mode: modeToSet.optional(),
    overwrite: z
      .boolean()
      .optional()
      .meta({ description: "Default true. false refuses to replace an existing file" }),
    append: z
      .boolean()
      .optional()
      .meta({ description: "Append to the file instead of replacing it. The append is atomic" }),
    if_match: etagToMatch.optional(),
  })
  .meta({ id: "WriteFile", ...either("path", "raw_path") });
export type WriteFileBody = z.input<typeof writeFileSchema>;

export const writtenFileSchema = z.object({
  ok: z.literal(true),
  ...named,
  size: count.meta({ description: "Size of the whole file" }),
  size_bytes: count,
  etag,
});
export const uploadQuery = z.object({
  path: filePath.optional().meta({
    description: "The target directory, also accepted as a form field. /workspace by default",
  }),
  raw_path: rawFilePath.optional(),
});
export const uploadedSchema = z.object({
  ok: z.literal(true),
  paths: z.array(z.string()),
  raw_paths: z
    .array(z.string())
    .optional()
    .meta({ description: "The same paths as base64, if one of them is not UTF-8" }),
});

export const readFileQuery = z.object({
  ...place,
  max_bytes: countInQuery.optional().meta({ description: "Default 1 MiB, at most 16 MiB" }),
});
export const readFileSchema = z.object({
  ...named,
  content_base64: z.string(),
  truncated: z.boolean(),
  size: count.meta({ description: "Size of the whole file" }),
  size_bytes: count,
  etag,
});

export const filePathQuery = z.object(place);
export const downloadQuery = z.object({
  ...place,
  real_path: flagInQuery.optional().meta({
    description:
      "Adds the header `X-Sandkasten-Real-Path`: the path without links of the file that was opened, percent-encoded",
  }),
});
export const statQuery = z.object({
  ...place,
  follow: flagInQuery
    .optional()
    .meta({ description: "Describe the link's target instead of the link" }),
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
      .meta({ description: "The directory cannot be read, so a recursive list omits its entries" }),
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
    mode: modeToSet.optional(),
    parents: z.boolean().optional().meta({ description: "Default true" }),
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
      .meta({ description: "true replaces an existing file or an empty directory" }),
    recursive: z
      .boolean()
      .optional()
      .meta({ description: "Copy a directory and everything below it" }),
  })
  .meta(bothEnds);
export const copiedFilesSchema = z.object({
  ok: z.literal(true),
  ...named,
  entries: count,
  bytes: count,
  skipped: count.meta({ description: "How many pipes, sockets and devices were not copied" }),
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
const fileChangeSchema = z.object({
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
        "Exclude entries that match. Can be repeated. `*`, `?`, `[a-z]` and `**` as in a .gitignore: a pattern without `/` matches names anywhere, a pattern with `/` matches paths below the directory, and a trailing `/` matches directories only",
    }),
  on_unreadable: z.enum(["fail", "skip"]).optional().meta({
    description:
      "What to do with entries that cannot be read: `fail` (the default), or `skip` them and count them in the header `X-Sandkasten-Unreadable`",
  }),
});
export const extractedSchema = z.object({ ok: z.literal(true), entries: count, bytes: count });
