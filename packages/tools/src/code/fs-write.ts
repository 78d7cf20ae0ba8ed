/** `sandbox_fs_write`: writes a file in the sandbox. */
import { z } from "zod";
import { contentFields, contentOf } from "../file-content.ts";
import { sandboxFields, sandboxIdOf } from "../input-fields.ts";
import { defineTool, type SandboxTool } from "../tool.ts";
import type { CodeSandbox } from "./code-sandbox.ts";
import { writeFile } from "./write-file.ts";

const input = z
  .strictObject({
    path: z.string().min(1).max(4096).describe("Relative to /workspace."),
    ...contentFields,
    ...sandboxFields,
    mode: z
      .string()
      .regex(/^0?[0-7]{3,4}$/, 'must be octal, such as "0644"')
      .optional()
      .describe('Permissions, such as "0755".'),
    overwrite: z.boolean().optional().describe("false refuses to replace a file; true by default."),
  })
  .transform((raw, context) => ({
    sandboxId: sandboxIdOf(context, raw),
    path: raw.path,
    bytes: contentOf(context, raw),
    mode: raw.mode === undefined ? undefined : Number.parseInt(raw.mode, 8),
    overwrite: raw.overwrite,
  }));

const output = z.object({ ok: z.literal(true), path: z.string(), size_bytes: z.number() });

export type FsWriteOutput = z.output<typeof output>;

export function fsWriteTool(sandbox: CodeSandbox): SandboxTool<FsWriteOutput> {
  return defineTool({
    name: "sandbox_fs_write",
    description:
      "Write a file in the sandbox, with the directories above it. It replaces a file that exists unless overwrite is false. Returns the absolute path and size_bytes.",
    input,
    output,
    onSandboxTime: sandbox.onSandboxTime,
    run: async ({ sandboxId, path, bytes, mode, overwrite }, { signal }) =>
      await sandbox.use(sandboxId, signal, async (session, held) => {
        const written = await writeFile(
          { sandbox, session, held, path, bytes },
          { mode, overwrite, signal },
        );
        return { ok: true as const, path: written.path, size_bytes: written.sizeBytes };
      }),
  });
}
