/** `sandbox_exec_wait`: waits for the end of a command that was started with `stream: true`. */
import { z } from "zod";
import { sandboxFields, sandboxIdOf, timeoutFields, timeoutMsOf } from "../input-fields.ts";
import { endText } from "../run-command.ts";
import { defineTool, type SandboxTool } from "../tool.ts";
import type { CodeSandbox } from "./code-sandbox.ts";

const input = z
  .strictObject({
    exec_id: z.string().min(1).max(128).describe("From sandbox_exec."),
    ...sandboxFields,
    ...timeoutFields,
  })
  .transform((raw, context) => ({
    sandboxId: sandboxIdOf(context, raw),
    execId: raw.exec_id,
    timeoutMs: timeoutMsOf(raw),
  }));

const output = z.object({
  sandbox_id: z.string(),
  session_id: z.string(),
  exec_id: z.string(),
  done: z.boolean(),
  status: z.enum(["completed", "running"]),
  exit_code: z.number().nullable().optional(),
  timed_out: z.boolean(),
  end_reason: z.string().optional(),
  error: z.string().optional(),
  duration_ms: z.number(),
  stdout_bytes: z.number(),
  stderr_bytes: z.number(),
});

export type ExecWaitOutput = z.output<typeof output>;

export function execWaitTool(sandbox: CodeSandbox): SandboxTool<ExecWaitOutput> {
  const { settings, policy } = sandbox;
  const seconds = settings.timeoutSeconds ?? policy.defaultTimeoutSeconds;
  return defineTool({
    name: "sandbox_exec_wait",
    description: `Wait for a command started with stream: true, at most timeout_seconds (default: ${seconds}). Returns done and, when it has ended, exit_code. done false means that it still runs: wait again, or read its output with sandbox_exec_read.`,
    input,
    output,
    repeated: ["sandbox_id", "session_id", "exec_id"],
    onSandboxTime: sandbox.onSandboxTime,
    run: async ({ sandboxId, execId, timeoutMs = seconds * 1000 }, { signal }) =>
      await sandbox.use(sandboxId, signal, async (session) => {
        const exec = session.getExec(execId);
        const waitMs = sandbox.allowedTimeoutMs(timeoutMs);
        const result = await exec
          .wait({ timeoutMs: waitMs, outputBudgetBytes: 0, signal })
          .catch(async (error: unknown) => {
            // Aborting the call also cancels the command.
            if (signal?.aborted === true) await exec.cancel();
            throw error;
          });
        const isOver = result.status === "done";
        const error = endText(result, session.limits);
        const { endReason } = result;
        return {
          sandbox_id: session.id,
          session_id: session.id,
          exec_id: execId,
          done: isOver,
          status: isOver ? ("completed" as const) : ("running" as const),
          ...(isOver && { exit_code: result.exitCode }),
          timed_out: result.timedOut,
          ...(endReason !== null && endReason !== "exited" && { end_reason: endReason }),
          ...(error !== undefined && { error }),
          duration_ms: result.durationMs,
          stdout_bytes: result.stdoutBytes,
          stderr_bytes: result.stderrBytes,
        };
      }),
  });
}
