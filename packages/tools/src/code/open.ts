/** `sandbox_open`: creates the run's sandbox, or resumes it. */
import { z } from "zod";
import { defineTool, type SandboxTool } from "../tool.ts";
import type { CodeSandbox } from "./code-sandbox.ts";

const input = z.strictObject({
  session_key: z
    .string()
    .min(1)
    .max(256)
    .optional()
    .describe("Name of an additional sandbox of this run. Usually omitted."),
  image: z
    .string()
    .min(1)
    .max(512)
    .optional()
    .describe("python, node, linux, or any image reference. Usually omitted."),
});

const output = z.object({
  sandbox_id: z.string(),
  session_id: z.string(),
  session_alias: z.string().optional(),
  session_key: z.string(),
  image: z.string(),
  requested_image: z.string().optional(),
  workdir: z.string(),
  created: z.boolean(),
  status: z.string(),
  network: z.boolean(),
  network_note: z.string().optional(),
  limits: z.object({
    cpu_millicores: z.number(),
    memory_mb: z.number(),
    workspace_mb: z.number(),
    pids: z.number(),
  }),
});

export type OpenOutput = z.output<typeof output>;

export function openTool(sandbox: CodeSandbox): SandboxTool<OpenOutput> {
  return defineTool({
    name: "sandbox_open",
    description:
      "Open your Linux sandbox, or resume it if it is open already. Files and shell state persist between calls. Returns sandbox_id, workdir and limits. The other tools open the sandbox themselves when needed.",
    input,
    output,
    repeated: ["session_id", "session_alias"],
    onSandboxTime: sandbox.onSandboxTime,
    run: async ({ session_key: name, image }, { signal }) => {
      const { session } = await sandbox.open({ name, image }, signal);
      const { limits } = session;
      return {
        sandbox_id: session.id,
        session_id: session.id,
        ...(session.sessionAlias !== undefined && { session_alias: session.sessionAlias }),
        session_key: session.key ?? "",
        image: session.image,
        ...(session.requestedImage !== undefined && { requested_image: session.requestedImage }),
        workdir: "/workspace",
        created: session.created,
        status: session.status === "running" ? "ready" : session.status,
        network: session.network !== "none",
        ...(sandbox.settings.network &&
          session.network === "none" && {
            network_note: "This agent asks for a network, which the administrator does not allow.",
          }),
        limits: {
          cpu_millicores: limits.cpuMillicores,
          memory_mb: limits.memoryMb,
          workspace_mb: limits.diskMb,
          pids: limits.pids,
        },
      };
    },
  });
}
