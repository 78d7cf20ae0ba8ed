/** Commands as frameworks expect them: each in a fresh shell that starts in the workspace. */
import { posix } from "node:path";
import {
  type Exec,
  type ExecInfo,
  type ExecOptions,
  type ExecResult,
  type OutputChunk,
  SandboxError,
  type Session,
} from "@sandkasten/sdk";
import { runCommand } from "../run-command.ts";
import { WORKSPACE } from "../sandbox-paths.ts";
import type { ToolCall } from "../tool.ts";

/** The maximum that one response of the daemon holds for both; longer output loses its middle. */
const OUTPUT_CAPS = { stdoutBytes: 8_388_608, stderrBytes: 8_388_608 };

export interface FreshCommand {
  /** Relative to the workspace. */
  readonly cwd?: string | undefined;
  readonly env?: Readonly<Record<string, string | undefined>> | undefined;
  readonly timeoutMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Aborting the signal ends the command, not only the wait for it. */
export function freshCommand({ cwd = ".", env, timeoutMs, signal }: FreshCommand): ExecOptions {
  return {
    stateful: false,
    cwd: inWorkspace(cwd),
    env,
    timeoutMs,
    signal,
    onAbort: "cancel",
  };
}

/** Runs it to its end. A timeout is part of the result: exit code 124, and the output so far. */
export async function runFresh(
  session: Session,
  command: string,
  options: FreshCommand & Pick<ToolCall, "onOutput">,
): Promise<ExecResult> {
  const { signal, onOutput } = options;
  const call = { signal, onOutput };
  return await runCommand(session, command, freshCommand(options), OUTPUT_CAPS, call);
}

/** The exit code of shells for a command that cannot be run. */
export const NOT_RUN = 126;

/** The message for a model whose command the daemon refuses to run. Rethrows other failures. */
export function refusalOf(error: unknown): string {
  if (!(error instanceof SandboxError)) throw error;
  if (error.code === "PAYLOAD_TOO_LARGE")
    return "The command is too long and was not run. Write it to a file, and run the file.\n";
  if (error.code === "INVALID_REQUEST") return `The command was not run: ${error.message}\n`;
  throw error;
}

/** The absolute path of a framework's path. */
function inWorkspace(path: string): string {
  return posix.resolve(WORKSPACE, path);
}

/** The exit code. Frameworks require a number, and a lost sandbox does not have one. */
export function exitCodeOf({ exitCode, endReason, execId }: ExecInfo): number {
  if (exitCode !== null) return exitCode;
  throw new SandboxError(
    "SANDBOX_UNREACHABLE",
    `The exit code of command ${execId} is not known (${endReason ?? "running"}). It may have run, in part or in whole.`,
  );
}

/** One stream of a command's output, read from the daemon as it is consumed. */
export function byteStream(exec: Exec, stream: "stdout" | "stderr"): ReadableStream<Uint8Array> {
  return ReadableStream.from(bytesOf(exec.follow({ stream })));
}

async function* bytesOf(chunks: AsyncIterable<OutputChunk>): AsyncGenerator<Uint8Array> {
  for await (const { bytes } of chunks) if (bytes.length > 0) yield bytes;
}

/** The result of a call, or undefined if its file does not exist. */
export async function unlessMissing<Value>(call: Promise<Value>): Promise<Value | undefined> {
  try {
    return await call;
  } catch (error) {
    if (error instanceof SandboxError && error.code === "FILE_NOT_FOUND") return undefined;
    throw error;
  }
}
