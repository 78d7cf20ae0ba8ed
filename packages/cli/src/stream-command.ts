/** Shows a command's output as it arrives, forwards its input, and maps its end to an exit code. */
import { SandboxError } from "@sandkasten/sdk";
import type { Exec, ExecInfo, OutputChunk } from "@sandkasten/sdk";
import type { Cli } from "./cli.ts";
import { CliFailure } from "./failure.ts";
import { plainJson } from "./output/plain-text.ts";
import { formatBytes, formatDuration } from "./output/units.ts";

/** @param input - Whether the command's stdin was left open, to be forwarded from ours. */
export async function streamCommand(
  cli: Cli,
  exec: Exec,
  { input }: { readonly input: boolean },
): Promise<ExecInfo> {
  const ended = new AbortController();
  const fed = input ? feedInput(cli, exec, ended.signal) : Promise.resolve();
  // A failure of the input ends the following; after the command's end it is ignored.
  const failed = Promise.withResolvers<never>();
  fed.catch((error: unknown) => {
    if (!ended.signal.aborted) failed.reject(error);
  });
  try {
    return await Promise.race([showOutput(cli, exec), failed.promise]);
  } finally {
    ended.abort();
  }
}

/** All output until the command's end, or until no background process can print more. */
export async function showOutput(
  cli: Cli,
  exec: Exec,
  until: "done" | "closed" = "done",
): Promise<ExecInfo> {
  const output = exec.follow({ until, signal: cli.interrupts.signal });
  for (;;) {
    const next = await output.next();
    if (next.done === true) return next.value;
    await showChunk(cli, exec.id, next.value);
  }
}

/** Output is passed on as raw bytes; with --json as one line per piece. */
export async function showChunk(cli: Cli, execId: string, chunk: OutputChunk): Promise<void> {
  const { bytes, ...shown } = chunk;
  if (cli.wantsJson()) {
    const exact = Buffer.from(bytes);
    const base64 = exact.equals(Buffer.from(chunk.text)) ? undefined : exact.toString("base64");
    return cli.out.line(plainJson({ type: "output", execId, ...shown, base64 }));
  }
  if (chunk.skippedBytes > 0) await showGap(cli, chunk.skippedBytes);
  await (chunk.stream === "stderr" ? cli.err : cli.out).write(bytes);
}

export async function showGap(cli: Cli, bytes: number): Promise<void> {
  await cli.err.line(cli.err.style.yellow(`[${formatBytes(bytes)} of output were not kept]`));
}

async function feedInput(cli: Cli, exec: Exec, ended: AbortSignal): Promise<void> {
  const { stdin } = cli.host;
  const stop = (): void => {
    stdin.destroy();
  };
  ended.addEventListener("abort", stop, { once: true });
  try {
    for await (const chunk of stdin) await exec.writeStdin(chunk as Uint8Array);
    await exec.closeStdin();
  } catch (error) {
    // A command may end before it has read everything, which its status may not show yet; while it
    // runs, its input must be complete.
    const isOver = error instanceof SandboxError && error.code === "CONFLICT";
    if (!isOver && (await exec.info()).status !== "done") throw error;
  }
}

const TIMEOUT_EXIT_CODE = 124;

function timeoutHint({ timeoutClamped, timeoutMs }: ExecInfo): string {
  return timeoutClamped && timeoutMs !== null
    ? `The daemon allows at most ${formatDuration(timeoutMs)}; its administrator can raise max_exec_timeout_ms.`
    : "Allow more time with --timeout or --idle-timeout.";
}

/** The command's own exit code where it has one; a failure to report where it has none. */
export function exitCodeOfCommand(info: ExecInfo): number {
  switch (info.endReason) {
    case "timeout":
    case "idle_timeout":
      throw new CliFailure(
        info.endReason === "timeout"
          ? "The command exceeded its timeout and was killed."
          : "The command exceeded its idle timeout and was killed.",
        {
          hint: timeoutHint(info),
          code: "COMMAND_TIMEOUT",
          exitCode: TIMEOUT_EXIT_CODE,
        },
      );
    case "oom":
      throw new CliFailure("The command was killed because the sandbox ran out of memory.", {
        hint: "Increase the limit with --memory when you open the session.",
        code: "OUT_OF_MEMORY",
        exitCode: info.exitCode ?? 137,
      });
    case "not_started":
      throw new CliFailure("The command was not started: its sandbox could not be reached.", {
        hint: "Run it again; the command did not start. `sandkasten ls --all` shows the state of its session.",
        code: "SANDBOX_UNREACHABLE",
      });
    case "sandbox_gone":
    case "unknown":
      throw new CliFailure(
        "It is unknown how the command ended, because its sandbox no longer exists.",
        {
          hint: "`sandkasten ls --all` shows the reason; `sandkasten logs` shows the output.",
          code: "SANDBOX_GONE",
        },
      );
    default:
      return info.exitCode ?? 1;
  }
}
