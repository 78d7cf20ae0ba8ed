/** `sandbox_close`: ends the sandbox before the run does. */
import { z } from "zod";
import { sandboxFields, sandboxIdOf } from "../input-fields.ts";
import { defineTool, type SandboxTool } from "../tool.ts";
import type { CodeSandbox } from "./code-sandbox.ts";

const input = z
  .strictObject({
    ...sandboxFields,
    delete_workspace: z
      .boolean()
      .optional()
      .describe(
        "true destroys the sandbox with its files, false leaves it until the run ends. true by default, except for a sandbox that other steps of a workflow use.",
      ),
  })
  .transform((raw, context) => ({
    sandboxId: sandboxIdOf(context, raw),
    isDestroyed: raw.delete_workspace,
  }));

const output = z.object({
  ok: z.literal(true),
  closed: z.literal(true),
  sandbox_id: z.string(),
  session_id: z.string(),
  destroyed: z.boolean().describe("Whether the files are gone"),
  note: z.string().optional(),
});

export type CloseOutput = z.output<typeof output>;

const NONE = "none";

export function closeTool(sandbox: CodeSandbox): SandboxTool<CloseOutput> {
  return defineTool({
    name: "sandbox_close",
    description:
      "Close the sandbox. Optional: it is cleaned up when the run ends. Files that were not published are lost when it is destroyed.",
    input,
    output,
    repeated: ["session_id"],
    onSandboxTime: sandbox.onSandboxTime,
    run: async ({ sandboxId, isDestroyed = !sandbox.isShared }, { signal }) => {
      const held = await sandbox.find(sandboxId);
      const id = held?.session.id ?? NONE;
      if (held !== undefined && isDestroyed) {
        await held.session.destroy({ signal });
        sandbox.forget(held);
      }
      return {
        ok: true as const,
        closed: true as const,
        sandbox_id: id,
        session_id: id,
        destroyed: held !== undefined && isDestroyed,
        ...(held === undefined && { note: "No sandbox was open." }),
        ...(held !== undefined &&
          !isDestroyed && {
            note: sandbox.isShared
              ? "The sandbox is shared with the other steps of the workflow and ends with the run."
              : "The sandbox and its files stay until the run ends.",
          }),
      };
    },
  });
}
