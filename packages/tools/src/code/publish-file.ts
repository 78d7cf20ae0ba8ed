/** `sandbox_publish_file`: copies a file of the sandbox into the file store. */
import { posix } from "node:path";
import { z } from "zod";
import type { FileStore } from "../file-store.ts";
import { oneOf, sandboxFields, sandboxIdOf } from "../input-fields.ts";
import { readUnblocked, sandboxPath } from "../sandbox-paths.ts";
import { defineTool, type SandboxTool } from "../tool.ts";
import { ToolError } from "../tool-error.ts";
import type { CodeSandbox } from "./code-sandbox.ts";

const input = z
  .strictObject({
    path: z.string().min(1).max(4096).optional().describe("The file, relative to /workspace."),
    source: z.string().min(1).max(4096).optional().describe("= path"),
    name: z
      .string()
      .min(1)
      .max(1024)
      .optional()
      .describe("Its name in the file store; default: its own name."),
    file_key: z.string().min(1).max(1024).optional().describe("= name"),
    ...sandboxFields,
  })
  .transform((raw, context) => {
    const path = oneOf(context, { path: raw.path, source: raw.source });
    if (path === undefined)
      context.addIssue({ code: "custom", path: ["path"], message: "is missing" });
    return {
      sandboxId: sandboxIdOf(context, raw),
      path: path ?? "",
      name: oneOf(context, { name: raw.name, file_key: raw.file_key }),
    };
  });

const output = z.object({
  ok: z.literal(true),
  name: z.string(),
  path: z.string(),
  size_bytes: z.number(),
});

export type PublishFileOutput = z.output<typeof output>;

export function publishFileTool(
  sandbox: CodeSandbox,
  store: FileStore,
): SandboxTool<PublishFileOutput> {
  return defineTool({
    name: "sandbox_publish_file",
    description:
      "Copy a file from the sandbox into the file store, where it outlives the sandbox. Returns its name there and size_bytes.",
    input,
    output,
    onSandboxTime: sandbox.onSandboxTime,
    run: async ({ sandboxId, path: given, name = posix.basename(given) }, { signal }) =>
      await sandbox.use(sandboxId, signal, async (session) => {
        const path = sandboxPath(given);
        const most = sandbox.maxArtifactBytes;
        const bytes = await readUnblocked(session, path, { maxBytes: most + 1, signal });
        if (bytes.length > most)
          throw new ToolError(
            "LIMIT_EXCEEDED",
            `${path} has more than ${most} bytes, which is the most that may be published here (max_artifact_bytes). Publish a smaller file.`,
          );
        await store.put(name, bytes);
        return { ok: true as const, name, path, size_bytes: bytes.length };
      }),
  });
}
