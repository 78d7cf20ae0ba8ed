/** Runs an external program with bounded time and output. */
import { spawn } from "node:child_process";

export interface ToolResult {
  readonly exitCode: number | null;
  readonly stdout: Buffer;
  /** The end of its error output. */
  readonly stderr: string;
  /** Why we ended it, if we did. */
  readonly ended?: "timeout" | "too-much-output" | "aborted";
}

export interface ToolOptions {
  readonly env: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  readonly maxStdoutBytes?: number;
  /** Its standard input; empty when absent. */
  readonly input?: string;
  readonly signal?: AbortSignal;
}

const MAX_STDERR_CHARS = 4096;

/** Rejects only if the program cannot be started. */
export async function runTool(
  program: string,
  args: readonly string[],
  options: ToolOptions,
): Promise<ToolResult> {
  const child = spawn(program, args, {
    stdio: ["pipe", "pipe", "pipe"],
    env: { ...options.env },
    cwd: "/",
  });
  const chunks: Buffer[] = [];
  let stdoutBytes = 0;
  let stderr = "";
  let ended: ToolResult["ended"];
  const end = (why: NonNullable<ToolResult["ended"]>): void => {
    ended ??= why;
    child.kill("SIGKILL");
    // Its child processes may continue; do not wait for their output.
    child.stdout.destroy();
    child.stderr.destroy();
  };
  const timer = setTimeout(() => end("timeout"), options.timeoutMs);
  const onAbort = (): void => end("aborted");
  options.signal?.addEventListener("abort", onAbort);
  child.stdout.on("data", (chunk: Buffer) => {
    stdoutBytes += chunk.length;
    if (stdoutBytes > (options.maxStdoutBytes ?? 0)) end("too-much-output");
    else chunks.push(chunk);
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    stderr = (stderr + text).slice(-MAX_STDERR_CHARS);
  });
  // A program that does not read its input may have closed it.
  child.stdin.on("error", () => undefined).end(options.input ?? "");
  try {
    const exitCode = await new Promise<number | null>((resolve, reject) => {
      child.once("error", reject);
      child.once("close", resolve);
    });
    return {
      exitCode,
      stdout: Buffer.concat(chunks),
      stderr,
      ...(ended === undefined ? {} : { ended }),
    };
  } finally {
    clearTimeout(timer);
    options.signal?.removeEventListener("abort", onAbort);
  }
}
