/** `sandbox_fs_list`: lists a directory in the sandbox. */
import type { FileEntry } from "@sandkasten/sdk";
import { posix } from "node:path";
import { z } from "zod";
import { sandboxFields, sandboxIdOf } from "../input-fields.ts";
import { requireUnblockedTarget, sandboxPath, WORKSPACE } from "../sandbox-paths.ts";
import { defineTool, type SandboxTool } from "../tool.ts";
import type { CodeSandbox } from "./code-sandbox.ts";

const DEFAULT_LIMIT = 500;
const MAX_LIMIT = 5000;

const input = z
  .strictObject({
    path: z
      .string()
      .min(1)
      .max(4096)
      .optional()
      .describe("Relative to /workspace; default: /workspace itself."),
    recursive: z.boolean().optional().describe("true includes everything below."),
    ...sandboxFields,
    offset: z.int().min(0).optional().describe("next_offset of the last call."),
    limit: z.int().min(1).max(MAX_LIMIT).optional().describe(`Default: ${DEFAULT_LIMIT}.`),
  })
  .transform((raw, context) => ({
    sandboxId: sandboxIdOf(context, raw),
    path: raw.path ?? ".",
    recursive: raw.recursive ?? false,
    offset: raw.offset ?? 0,
    limit: raw.limit ?? DEFAULT_LIMIT,
  }));

const entry = z.object({
  path: z.string().describe("Relative to /workspace, or absolute outside it"),
  name: z.string(),
  type: z.enum(["file", "dir", "symlink", "other"]),
  size: z.number(),
  size_bytes: z.number(),
  mode: z.string(),
  mtime_unix: z.number(),
});

const output = z.object({
  path: z.string(),
  entries: z.array(entry),
  truncated: z.boolean().describe("There are more entries after these"),
  next_offset: z.number().optional().describe("offset to list on from"),
});

export type FsListOutput = z.output<typeof output>;

export function fsListTool(sandbox: CodeSandbox): SandboxTool<FsListOutput> {
  return defineTool({
    name: "sandbox_fs_list",
    description: `List a directory in the sandbox: path, type, size, mode and mtime_unix of each entry, ${DEFAULT_LIMIT} at a time. truncated true means that there are more: list on with offset: next_offset.`,
    input,
    output,
    forModel: ({ entries, ...rest }) => ({
      ...rest,
      entries: entries.map(({ path, type, size, mode, mtime_unix }) => ({
        path,
        type,
        size,
        mode,
        mtime_unix,
      })),
    }),
    onSandboxTime: sandbox.onSandboxTime,
    run: async ({ sandboxId, path: given, recursive, offset, limit }, { signal }) =>
      await sandbox.use(sandboxId, signal, async (session) => {
        const path = sandboxPath(given);
        const [{ entries, truncated }] = await Promise.all([
          collect(session.files.list(path, { recursive, signal }), offset, limit),
          requireUnblockedTarget(session, path, signal),
        ]);
        return { path, entries, truncated, ...(truncated && { next_offset: offset + limit }) };
      }),
  });
}

async function collect(
  all: AsyncIterable<FileEntry>,
  offset: number,
  limit: number,
): Promise<Pick<FsListOutput, "entries" | "truncated">> {
  const entries: FsListOutput["entries"] = [];
  let index = 0;
  for await (const found of all) {
    if (index++ < offset) continue;
    if (entries.length === limit) return { entries, truncated: true };
    entries.push(entryOf(found));
  }
  return { entries, truncated: false };
}

function entryOf(found: FileEntry): FsListOutput["entries"][number] {
  const path = posix.normalize(found.path);
  return {
    path: path.startsWith(`${WORKSPACE}/`) ? path.slice(WORKSPACE.length + 1) : path,
    name: found.name,
    type: found.type,
    size: found.sizeBytes,
    size_bytes: found.sizeBytes,
    mode: found.mode.toString(8).padStart(4, "0"),
    mtime_unix: Math.floor(found.mtimeUnix),
  };
}
