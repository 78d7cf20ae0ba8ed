/** `sandbox_fs_delete`: deletes a file or directory in the sandbox. */
import { z } from "zod";
import { sandboxFields, sandboxIdOf } from "../input-fields.ts";
import { requireUnblockedTarget, sandboxPath, WORKSPACE } from "../sandbox-paths.ts";
import { defineTool, type SandboxTool } from "../tool.ts";
import { ToolError } from "../tool-error.ts";
import type { CodeSandbox } from "./code-sandbox.ts";

const input = z
  .strictObject({
    path: z.string().min(1).max(4096).describe("Relative to /workspace."),
    recursive: z.boolean().optional().describe("Needed for directories that are not empty."),
    ...sandboxFields,
  })
  .transform((raw, context) => ({
    sandboxId: sandboxIdOf(context, raw),
    path: raw.path,
    recursive: raw.recursive ?? false,
  }));

const output = z.object({
  ok: z.literal(true),
  deleted: z.string().describe("The path"),
  path: z.string(),
});

export type FsDeleteOutput = z.output<typeof output>;

export function fsDeleteTool(sandbox: CodeSandbox): SandboxTool<FsDeleteOutput> {
  return defineTool({
    name: "sandbox_fs_delete",
    description:
      "Delete a file in the sandbox, or with recursive: true a directory and everything below it. Returns the absolute path.",
    input,
    output,
    repeated: ["path"],
    onSandboxTime: sandbox.onSandboxTime,
    run: async ({ sandboxId, path: given, recursive }, { signal }) =>
      await sandbox.use(sandboxId, signal, async (session, held) => {
        const path = sandboxPath(given);
        if (path === WORKSPACE || path === "/")
          throw new ToolError("REFUSED", `${path} cannot be deleted; delete what is in it.`);
        // SECURITY: an ordinary user cannot delete blocked paths, whatever a link says; root can.
        if (session.profile === "root") await requireUnblockedTarget(session, path, signal);
        await session.files.remove(path, { recursive, signal });
        for (const written of held.writtenFiles)
          if (written === path || written.startsWith(`${path}/`)) held.writtenFiles.delete(written);
        return { ok: true as const, deleted: path, path };
      }),
  });
}
