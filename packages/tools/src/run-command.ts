/** Runs a command to its end and prepares its output for a model. */
import type { Command, ExecOptions, ExecResult, Session } from "@sandkasten/sdk";
import { SandboxError } from "@sandkasten/sdk";
import { headAndTail, type ShortText } from "./head-and-tail.ts";
import type { ToolCall } from "./tool.ts";
import { toToolError } from "./tool-error.ts";
import { inSpan, markFailed, NO_EXIT_CODE } from "./tracing.ts";

/** The maximum that one response of the daemon holds. */
const MAX_BUDGET_BYTES = 16_777_216;

export interface OutputCaps {
  readonly stdoutBytes: number;
  readonly stderrBytes: number;
}

/** Runs it, passes its output on as it arrives, and returns all of it as one result. */
export async function runCommand(
  session: Session,
  cmd: Command,
  options: ExecOptions,
  caps: OutputCaps,
  call: ToolCall,
): Promise<ExecResult> {
  const timeoutMs = options.timeoutMs ?? 0;
  const attributes = {
    "sandbox.runtime": options.runtime,
    "sandbox.image": session.image,
    ...(timeoutMs > 0 && { "sandbox.timeout_seconds": timeoutMs / 1000 }),
  };
  return await inSpan("sandbox.exec", attributes, async (span) => {
    const result = await run(session, cmd, options, caps, call);
    span.setAttributes({
      "sandbox.exit_code": result.exitCode ?? NO_EXIT_CODE,
      "sandbox.stdout_bytes": result.stdoutBytes,
      "sandbox.stderr_bytes": result.stderrBytes,
    });
    if (result.endReason !== "exited") markFailed(span, result.endReason ?? "unknown");
    else if (result.exitCode !== 0) markFailed(span, `exit code ${result.exitCode}`);
    return result;
  });
}

async function run(
  session: Session,
  cmd: Command,
  options: ExecOptions,
  caps: OutputCaps,
  call: ToolCall,
): Promise<ExecResult> {
  const outputBudgetBytes = budgetOf(caps);
  const asked: ExecOptions = {
    ...options,
    outputBudgetBytes,
    signal: call.signal,
    onAbort: "cancel",
    // A running command keeps its session alive; it must not outlive this process.
    onDisconnect: "cancel",
  };
  if (call.onOutput !== undefined)
    return await streamCommand(session, cmd, asked, { ...call, onOutput: call.onOutput });
  try {
    return await session.exec(cmd, asked);
  } catch (error) {
    const isTimeout = error instanceof SandboxError && error.code === "COMMAND_TIMEOUT";
    if (isTimeout && error.result !== undefined) return error.result;
    throw error;
  }
}

async function streamCommand(
  session: Session,
  cmd: Command,
  options: ExecOptions,
  { onOutput, signal }: ToolCall & { readonly onOutput: NonNullable<ToolCall["onOutput"]> },
): Promise<ExecResult> {
  const stream = session.stream(cmd, options);
  for await (const { stream: name, text } of stream)
    if (text !== "") onOutput({ stream: name, text });
  const exec = await stream.exec;
  const { outputBudgetBytes } = options;
  const result = await exec.wait({ outputBudgetBytes, signal });
  if (result.endReason === "sandbox_gone" || result.endReason === "unknown")
    throw toToolError(
      new SandboxError(
        "SANDBOX_UNREACHABLE",
        "the sandbox was lost while the command ran: it may have run, in part or in whole",
      ),
    );
  return result;
}

export function budgetOf({ stdoutBytes, stderrBytes }: OutputCaps): number {
  return Math.min(stdoutBytes + stderrBytes, MAX_BUDGET_BYTES);
}

/** The output of a command as a result shows it. */
export interface ShownOutput {
  readonly stdout: string;
  readonly stderr: string;
  readonly truncated: boolean;
  /** The offset up to which the output is shown in full. */
  readonly shownBytes: number;
}

/** Both streams, truncated to their limits. */
export function shapeOutput(result: ExecResult, caps: OutputCaps): ShownOutput {
  const stdout = headAndTail(result.stdout, caps.stdoutBytes);
  const stderr = headAndTail(result.stderr, caps.stderrBytes);
  const truncated = result.truncated || stdout.omittedBytes > 0 || stderr.omittedBytes > 0;
  return {
    stdout: stdout.text,
    stderr: stderr.text,
    truncated,
    shownBytes: truncated ? shownHead(result, stdout, stderr) : result.outputBytes,
  };
}

/** If both streams have output, the two texts do not show in which order it was printed. */
function shownHead(result: ExecResult, stdout: ShortText, stderr: ShortText): number {
  if (result.stdoutBytes > 0 && result.stderrBytes > 0) return 0;
  const { text, headBytes } = result.stderrBytes > 0 ? stderr : stdout;
  const before = OMISSION.exec(text)?.index ?? text.length;
  return Math.min(headBytes, Buffer.byteLength(text.slice(0, before)));
}

/** The line in place of what was omitted, by the daemon or here. */
const OMISSION = /\n\[… \d+ bytes omitted …\]\n/;

/** What a model needs to know about the end of a command, besides its exit code. */
export function endText(
  { endReason, timeoutMs, signal }: ExecResult,
  { memoryMb }: { readonly memoryMb: number },
): string | undefined {
  switch (endReason) {
    case "timeout":
    case "idle_timeout":
      return `The command exceeded its timeout of ${(timeoutMs ?? 0) / 1000} s and was killed with everything it had started. Its output until then is in stdout and stderr.`;
    case "oom":
      return `The sandbox reached its memory limit of ${memoryMb} MiB, and the kernel killed the command. Use less memory.`;
    case "killed":
      return `A signal${signal === undefined ? "" : ` (${signal})`} ended the command.`;
    case "cancelled":
      return "The command was cancelled.";
    case "exited":
    case "sandbox_gone":
    case "not_started":
    case "unknown":
    case null:
      return undefined;
  }
}
