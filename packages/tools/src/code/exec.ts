/** `sandbox_exec`: runs a command in the sandbox. */
import type { ExecResult, Session } from "@sandkasten/sdk";
import { z } from "zod";
import { oneOf, sandboxFields, sandboxIdOf, timeoutFields, timeoutMsOf } from "../input-fields.ts";
import { endText, runCommand, shapeOutput } from "../run-command.ts";
import { sandboxPath } from "../sandbox-paths.ts";
import { defineTool, type SandboxTool } from "../tool.ts";
import { describeSpan, inSpan } from "../tracing.ts";
import type { CodeSandbox } from "./code-sandbox.ts";
import { startHeld } from "./start-held.ts";

/** The longest command that the daemon accepts; longer text belongs in a file. */
const MAX_COMMAND_BYTES = 1_048_576;
const MAX_ARGUMENT_BYTES = 131_071;

const command = z.union([z.string().min(1), z.array(z.string()).min(1).max(4096)]);

const input = z
  .strictObject({
    cmd: command
      .optional()
      .describe(
        'Shell text ("cd app && make") runs in your shell, which keeps its directory and variables. A list (["python3", "main.py"]) runs as a separate process in /workspace.',
      ),
    command: command.optional().describe("= cmd"),
    ...sandboxFields,
    cwd: z.string().min(1).max(4096).optional().describe("Directory to run in."),
    workdir: z.string().min(1).max(4096).optional().describe("= cwd"),
    env: z
      .record(z.string(), z.string())
      .optional()
      .describe("Environment variables for this command."),
    ...timeoutFields,
    stream: z
      .boolean()
      .optional()
      .describe(
        "true starts the command and returns at once with exec_id. Use it for servers and long jobs; continue with sandbox_exec_read or sandbox_exec_wait.",
      ),
    stateful: z
      .boolean()
      .optional()
      .describe("false runs shell text in a fresh shell, true runs a list in your shell."),
  })
  .transform((raw, context) => {
    const cmd = oneOf(context, { cmd: raw.cmd, command: raw.command });
    if (cmd === undefined)
      context.addIssue({ code: "custom", path: ["cmd"], message: "is missing" });
    else if (isTooLong(cmd))
      context.addIssue({
        code: "custom",
        path: ["cmd"],
        message: `is too long: at most ${MAX_COMMAND_BYTES} bytes, and ${MAX_ARGUMENT_BYTES} in one argument. Write it to a file with sandbox_fs_write and run the file`,
      });
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

type ExecInput = z.output<typeof input>;

const output = z.object({
  sandbox_id: z.string(),
  session_id: z.string(),
  exec_id: z.string(),
  status: z.enum(["completed", "running"]),
  exit_code: z.number().nullable().optional(),
  stdout: z.string().optional(),
  stderr: z.string().optional(),
  output: z.string().optional().describe("stdout and stderr in the order in which they came"),
  cwd: z.string().optional(),
  duration_ms: z.number(),
  stdout_bytes: z.number().describe("All that was printed, also what is not shown here"),
  stderr_bytes: z.number(),
  truncated: z.boolean().describe("The middle of the output is not shown here"),
  timed_out: z.boolean(),
  end_reason: z.string().optional().describe("Why it ended, unless it exited by itself"),
  error: z.string().optional(),
  background: z.boolean().optional().describe("Processes of the command still run"),
  shell_restarted: z.boolean().optional().describe("The shell is new: its variables are gone"),
  timeout_seconds: z.number().optional().describe("The timeout in effect, where it was lowered"),
  next_seq: z
    .number()
    .optional()
    .describe("since_seq for sandbox_exec_read, where there is more to read"),
});

export type ExecOutput = z.output<typeof output>;

export function execTool(sandbox: CodeSandbox): SandboxTool<ExecOutput> {
  const { settings, policy } = sandbox;
  const seconds = Math.min(
    settings.timeoutSeconds ?? policy.defaultTimeoutSeconds,
    policy.maxTimeoutSeconds,
  );
  return defineTool({
    name: "sandbox_exec",
    description: `Run a command in your Linux sandbox and wait for its end. Returns exit_code, stdout and stderr; a failing command is a result, not an error. Timeout ${seconds} s unless timeout_seconds says otherwise; a command that takes longer is ended, with exit_code 124 and timed_out true. Long output is shortened in the middle (truncated true): read all of it with sandbox_exec_read.`,
    input,
    output,
    forModel,
    onSandboxTime: sandbox.onSandboxTime,
    run: async (asked, call) =>
      await sandbox.use(asked.sandboxId, call.signal, async (session) => {
        if (asked.isStreamed) return await start(sandbox, session, asked, call.signal);
        const caps = sandbox.outputCaps;
        const timeoutMs = asked.timeoutMs ?? seconds * 1000;
        const options = { ...optionsOf(asked), timeoutMs: sandbox.allowedTimeoutMs(timeoutMs) };
        describeSpan({
          "sandbox.runtime": typeof asked.cmd === "string" ? "bash" : "process",
          "sandbox.timeout_seconds": options.timeoutMs / 1000,
        });
        const result = await runCommand(session, asked.cmd, options, caps, call);
        return await inSpan("sandbox.collect_outputs", {}, () =>
          Promise.resolve(resultOf(sandbox, session, result, timeoutMs)),
        );
      }),
  });
}

/** What a model can act on: ids and sizes only if there is more to read. */
function forModel(result: ExecOutput): unknown {
  const { exit_code, stdout, stderr, cwd, duration_ms, error, end_reason } = result;
  const { exec_id, status, background, shell_restarted, timeout_seconds, next_seq } = result;
  const { truncated, stdout_bytes, stderr_bytes } = result;
  if (status === "running") return { exec_id, status, next_seq };
  return {
    exit_code,
    stdout,
    ...(stderr !== "" && { stderr }),
    cwd,
    duration_ms,
    ...(result.timed_out && { timed_out: true }),
    ...(end_reason !== undefined && { end_reason }),
    ...(error !== undefined && { error }),
    ...(shell_restarted === true && { shell_restarted }),
    ...(timeout_seconds !== undefined && { timeout_seconds }),
    ...(truncated && { truncated, stdout_bytes, stderr_bytes }),
    ...(background === true && { background }),
    ...(next_seq !== undefined && { exec_id, next_seq }),
  };
}

async function start(
  sandbox: CodeSandbox,
  session: Session,
  asked: ExecInput,
  signal: AbortSignal | undefined,
): Promise<ExecOutput> {
  // A command started in the background has the longest timeout unless it sets its own.
  const timeoutMs = sandbox.allowedTimeoutMs(asked.timeoutMs ?? Number.POSITIVE_INFINITY);
  const options = { ...optionsOf(asked), timeoutMs };
  const exec = await startHeld(session, asked.cmd, options, signal);
  return {
    sandbox_id: session.id,
    session_id: session.id,
    exec_id: exec.id,
    status: "running",
    duration_ms: 0,
    stdout_bytes: 0,
    stderr_bytes: 0,
    truncated: false,
    timed_out: false,
    next_seq: 0,
  };
}

function optionsOf({ cwd, env, stateful }: ExecInput) {
  return { cwd: cwd === undefined ? undefined : directoryOf(cwd), env, stateful };
}

/** Commands may run anywhere; this only unifies the two names of the workspace. */
function directoryOf(cwd: string): string {
  return cwd.startsWith("/") ? cwd : sandboxPath(cwd);
}

function resultOf(
  { outputCaps }: CodeSandbox,
  session: Session,
  result: ExecResult,
  askedMs: number,
): ExecOutput {
  const { stdout, stderr, truncated, shownBytes } = shapeOutput(result, outputCaps);
  const { endReason, timeoutMs } = result;
  const error = endText(result, session.limits);
  const isLowered = timeoutMs !== null && timeoutMs < askedMs;
  return {
    sandbox_id: session.id,
    session_id: session.id,
    exec_id: result.execId,
    status: "completed",
    exit_code: result.exitCode,
    stdout,
    stderr,
    output: result.output,
    cwd: result.cwd,
    duration_ms: result.durationMs,
    stdout_bytes: result.stdoutBytes,
    stderr_bytes: result.stderrBytes,
    truncated,
    timed_out: result.timedOut,
    ...(endReason !== "exited" && endReason !== null && { end_reason: endReason }),
    ...(error !== undefined && { error }),
    ...(result.background && { background: true }),
    ...(result.shellRestarted && { shell_restarted: true }),
    ...(isLowered && { timeout_seconds: timeoutMs / 1000 }),
    ...((truncated || result.background) && { next_seq: shownBytes }),
  };
}

function isTooLong(cmd: string | readonly string[]): boolean {
  if (typeof cmd === "string") return Buffer.byteLength(cmd) > MAX_COMMAND_BYTES;
  const sizes = cmd.map((argument) => Buffer.byteLength(argument));
  return (
    sizes.some((size) => size > MAX_ARGUMENT_BYTES) ||
    sizes.reduce((sum, size) => sum + size, 0) > MAX_COMMAND_BYTES
  );
}
