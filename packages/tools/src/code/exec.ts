/** `sandbox_exec`: runs a command in the sandbox. */
import type { ExecOptions, ExecResult, Session } from "@sandkasten/sdk";
import { SandboxError } from "@sandkasten/sdk";
import { z } from "zod";
import { oneOf, sandboxFields, sandboxIdOf, timeoutFields, timeoutMsOf } from "../input-fields.ts";
import { defineTool, type SandboxTool, type ToolCall } from "../tool.ts";
import { ToolError } from "../tool-error.ts";
import type { CodeSandbox } from "./code-sandbox.ts";

const command = z.union([z.string().min(1), z.array(z.string()).min(1)]);

const input = z
  .strictObject({
    ...sandboxFields,
    cmd: command.optional().describe("Shell text, or a list of arguments without a shell."),
    command: command.optional().describe("Same as cmd."),
    cwd: z.string().min(1).optional(),
    workdir: z.string().min(1).optional().describe("Same as cwd."),
    env: z.record(z.string(), z.string()).optional(),
    ...timeoutFields,
    stream: z
      .boolean()
      .optional()
      .describe("true returns at once; read on with sandbox_exec_read."),
    stateful: z.boolean().optional(),
  })
  .transform((raw, context) => {
    const cmd = oneOf(context, { cmd: raw.cmd, command: raw.command });
    if (cmd === undefined)
      context.addIssue({ code: "custom", path: ["cmd"], message: "is missing" });
    return {
      sandboxId: sandboxIdOf(context, raw),
      cmd: cmd ?? "",
      cwd: oneOf(context, { cwd: raw.cwd, workdir: raw.workdir }),
      env: raw.env,
      timeoutMs: timeoutMsOf(raw),
      isStreamed: raw.stream === true,
      stateful: raw.stateful,
    };
  });

const output = z.object({
  sandbox_id: z.string(),
  session_id: z.string(),
  exec_id: z.string(),
  status: z.enum(["completed", "running"]),
  exit_code: z.number().nullable().optional(),
  stdout: z.string().optional(),
  stderr: z.string().optional(),
  output: z.string().optional(),
  cwd: z.string(),
  duration_ms: z.number(),
  stdout_bytes: z.number(),
  stderr_bytes: z.number(),
  truncated: z.boolean(),
  timed_out: z.boolean(),
  error: z.string().optional(),
  next_seq: z.number(),
});

export type ExecOutput = z.output<typeof output>;

export function execTool(sandbox: CodeSandbox): SandboxTool<ExecOutput> {
  return defineTool({
    name: "sandbox_exec",
    description: "Run a command in the sandbox.",
    input,
    output,
    repeated: ["session_id", "output"],
    onSandboxTime: sandbox.onSandboxTime,
    run: async ({ sandboxId, cmd, cwd, env, timeoutMs, stateful }, call) =>
      sandbox.use(sandboxId, call.signal, async (session) => {
        const { settings, policy } = sandbox;
        const seconds = settings.timeoutSeconds ?? policy.defaultTimeoutSeconds;
        const result = await runCommand(session, cmd, call, {
          cwd,
          env,
          stateful,
          timeoutMs: Math.min(timeoutMs ?? seconds * 1000, policy.maxTimeoutSeconds * 1000),
        });
        return {
          sandbox_id: session.id,
          session_id: session.id,
          exec_id: result.execId,
          status: "completed" as const,
          exit_code: result.exitCode,
          stdout: result.stdout,
          stderr: result.stderr,
          output: result.output,
          cwd: result.cwd,
          duration_ms: result.durationMs,
          stdout_bytes: result.stdoutBytes,
          stderr_bytes: result.stderrBytes,
          truncated: result.truncated,
          timed_out: result.timedOut,
          next_seq: result.nextCursor,
        };
      }),
  });
}

async function runCommand(
  session: Session,
  cmd: string | readonly string[],
  { signal }: ToolCall,
  options: ExecOptions,
): Promise<ExecResult> {
  try {
    return await session.exec(cmd, { ...options, signal, onAbort: "cancel" });
  } catch (error) {
    if (error instanceof SandboxError && error.code === "COMMAND_TIMEOUT" && error.result)
      return error.result;
    if (error instanceof SandboxError && error.code === "PAYLOAD_TOO_LARGE")
      throw new ToolError("LIMIT_EXCEEDED", "The command is too long. Write it to a file first.");
    throw error;
  }
}
