/** `sandbox_fs_read`: reads a file in the sandbox. */
import type { Session } from "@sandkasten/sdk";
import { z } from "zod";
import { sandboxFields, sandboxIdOf } from "../input-fields.ts";
import { readUnblocked, sandboxPath } from "../sandbox-paths.ts";
import { defineTool, type SandboxTool } from "../tool.ts";
import type { CodeSandbox } from "./code-sandbox.ts";

const DEFAULT_BYTES = 262_144;
const MAX_BYTES = 10_485_760;

const input = z
  .strictObject({
    path: z.string().min(1).max(4096).describe("Relative to /workspace, or absolute."),
    ...sandboxFields,
    max_bytes: z
      .int()
      .min(1)
      .max(MAX_BYTES)
      .optional()
      .describe(`How much to read at most; default: ${DEFAULT_BYTES}.`),
    offset: z.int().min(0).optional().describe("Byte to start at; next_offset of the last call."),
    encoding: z
      .enum(["text", "utf-8", "utf8", "base64"])
      .optional()
      .describe("base64 returns base64 even for text."),
  })
  .transform((raw, context) => ({
    sandboxId: sandboxIdOf(context, raw),
    path: raw.path,
    maxBytes: raw.max_bytes ?? DEFAULT_BYTES,
    offset: raw.offset ?? 0,
    isBase64: raw.encoding === "base64",
  }));

const output = z.object({
  path: z.string(),
  contents: z.string().optional().describe("The text, when it is UTF-8"),
  contents_b64: z.string().optional().describe("The bytes, when it is not"),
  content: z.string().describe("The same as contents or contents_b64"),
  encoding: z.enum(["text", "base64"]),
  truncated: z.boolean().describe("There is more of the file after this"),
  size_bytes: z.number().describe("Of the whole file"),
  next_offset: z.number().optional().describe("offset to read on from"),
});

export type FsReadOutput = z.output<typeof output>;

export function fsReadTool(sandbox: CodeSandbox): SandboxTool<FsReadOutput> {
  return defineTool({
    name: "sandbox_fs_read",
    description:
      "Read a file in the sandbox. Returns contents for text and contents_b64 for other files, with size_bytes of the whole file. truncated true means that there is more: read on with offset: next_offset.",
    input,
    output,
    repeated: ["content"],
    onSandboxTime: sandbox.onSandboxTime,
    run: async ({ sandboxId, path: given, maxBytes, offset, isBase64 }, { signal }) =>
      await sandbox.use(sandboxId, signal, async (session) => {
        const path = sandboxPath(given);
        const slice = await readSlice(session, path, { offset, maxBytes, signal });
        const text = isBase64 ? undefined : textOf(slice);
        const shown = text ?? Buffer.from(slice.bytes).toString("base64");
        const end = offset + (text === undefined ? slice.bytes.length : Buffer.byteLength(text));
        const truncated = end < slice.sizeBytes;
        return {
          path,
          ...(text === undefined ? { contents_b64: shown } : { contents: shown }),
          content: shown,
          encoding: text === undefined ? ("base64" as const) : ("text" as const),
          truncated,
          size_bytes: slice.sizeBytes,
          ...(truncated && { next_offset: end }),
        };
      }),
  });
}

interface Slice {
  readonly bytes: Uint8Array;
  readonly sizeBytes: number;
}

interface SliceOptions {
  readonly offset: number;
  readonly maxBytes: number;
  readonly signal: AbortSignal | undefined;
}

/**
 * Reading one byte more than requested shows whether there is more, so small files take one
 * request.
 */
async function readSlice(
  session: Session,
  path: string,
  { offset, maxBytes, signal }: SliceOptions,
): Promise<Slice> {
  const part = { start: offset, maxBytes: maxBytes + 1, signal };
  const bytes = await readUnblocked(session, path, part);
  if (offset === 0 && bytes.length <= maxBytes) return { bytes, sizeBytes: bytes.length };
  const { sizeBytes } = await session.files.stat(path, { follow: true, signal });
  return { bytes: bytes.subarray(0, maxBytes), sizeBytes };
}

/** The text of a slice, up to its last complete character; undefined if it is not UTF-8. */
function textOf({ bytes, sizeBytes }: Slice): string | undefined {
  const isCut = bytes.length < sizeBytes;
  // A character has at most four bytes, so a cut leaves at most three of them.
  for (let left = 0; left <= (isCut ? Math.min(3, bytes.length) : 0); left++) {
    try {
      const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
      return decoder.decode(bytes.subarray(0, bytes.length - left));
    } catch {
      continue;
    }
  }
  return undefined;
}
