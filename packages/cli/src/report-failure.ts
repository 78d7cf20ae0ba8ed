/** Says what went wrong in one line and what to do about it in the next. */
import { CommanderError } from "commander";
import { CliFailure } from "./failure.ts";
import { plainJson, plainText } from "./output/plain-text.ts";
import type { Sink } from "./output/sink.ts";

export interface FailureReport {
  readonly code: string;
  readonly message: string;
  readonly hint: string;
  readonly requestId?: string;
  readonly exitCode: number;
}

export async function printFailure(
  sink: Sink,
  report: FailureReport,
  json: boolean,
): Promise<void> {
  const { exitCode: _, ...error } = report;
  if (json) return sink.line(plainJson({ error }));
  const { style } = sink;
  // Several problems of a configuration are as many lines.
  const message = report.message.split("\n").map(plainText).join("\n  ");
  await sink.line(`${style.red("✗")} ${message}`);
  await sink.line(`${style.dim("→")} ${plainText(report.hint)}`);
}

export function describeFailure(error: unknown): FailureReport {
  if (error instanceof CliFailure) {
    const { code, message, hint, exitCode } = error;
    return { code, message, hint, exitCode };
  }
  if (error instanceof CommanderError)
    return {
      code: "USAGE",
      message: error.message.replace(/^error: /, ""),
      hint: usageHint(error),
      exitCode: 2,
    };
  const coded = codedError(error);
  if (coded !== undefined) {
    const { code, message, requestId } = coded;
    const known = Object.hasOwn(HINTS, code);
    const hint = known ? HINTS[code as keyof typeof HINTS] : fallbackHint(requestId);
    return { code, message, hint, ...(requestId !== undefined && { requestId }), exitCode: 1 };
  }
  return {
    code: "CLI_FAILED",
    message: error instanceof Error ? error.message : String(error),
    hint: "`sandkasten doctor` checks the machine and the daemon.",
    exitCode: 1,
  };
}

function usageHint(error: CommanderError): string {
  if (error.code === "commander.unknownOption")
    return "Put `--` before a command that has options of its own; `--help` lists those of sandkasten.";
  return "`sandkasten --help` and `sandkasten COMMAND --help` say how it is used.";
}

/** Errors of the client and of the daemon are two classes that look alike. */
function codedError(
  error: unknown,
): { readonly code: string; readonly message: string; readonly requestId?: string } | undefined {
  if (!(error instanceof Error) || error.name !== "SandboxError") return undefined;
  const { code, requestId } = error as Error & { code?: unknown; requestId?: unknown };
  if (typeof code !== "string") return undefined;
  return {
    code,
    message: (code === "CONNECTION_FAILED" ? refusal(error) : undefined) ?? error.message,
    ...(typeof requestId === "string" && { requestId }),
  };
}

/** Nobody listening is by far the most frequent failure, and deserves a plain sentence. */
function refusal(error: Error): string | undefined {
  for (let cause: unknown = error.cause; cause instanceof Error; cause = cause.cause) {
    const { code, address, port } = cause as NodeJS.ErrnoException & {
      readonly address?: string;
      readonly port?: number;
    };
    if (code === "ECONNREFUSED" && address !== undefined)
      return `No daemon answers at ${address}:${port ?? ""}.`;
  }
  return undefined;
}

function fallbackHint(requestId: string | undefined): string {
  return requestId === undefined
    ? "`sandkasten doctor` checks the machine and the daemon."
    : `The daemon's log has the cause under the request id ${requestId}.`;
}

const HINTS = {
  CONNECTION_FAILED:
    "Start a daemon with `sandkasten daemon`, or name one with --url or SANDKASTEN_URL.",
  UNAUTHORIZED:
    "Give the daemon's key with SANDKASTEN_API_KEY or --api-key; a local daemon keeps it in the file api-key of its data directory.",
  SESSION_NOT_FOUND:
    "`sandkasten ls` shows the sessions there are, with --all also those that ended.",
  SESSION_EXPIRED:
    "Open a new one with `sandkasten open`; `sandkasten logs` still shows its output.",
  EXEC_NOT_FOUND: "`sandkasten ps SESSION` shows the commands of a session.",
  INVALID_IMAGE: "`sandkasten image ls` shows what is there, `sandkasten image pull` fetches more.",
  INVALID_REQUEST: "Correct the value; `--help` after the command says what it takes.",
  FILE_NOT_FOUND: "Check the path; relative ones start at /workspace.",
  NOT_A_FILE: "Name a regular file.",
  NOT_A_DIRECTORY: "Name a directory.",
  FILE_EXISTS: "Choose another name, or remove what is there first.",
  PERMISSION_DENIED: "The sandbox's user has /workspace, /tmp and its home directory to write to.",
  CONFLICT: "`sandkasten ls --all` shows the state of each session.",
  NO_SHELL: "Run the program itself: add --argv, or give it with its arguments after `--`.",
  PAYLOAD_TOO_LARGE: "Send less at once.",
  QUOTA_EXCEEDED: "End what is not needed with `sandkasten rm`, or try again later.",
  SANDBOX_UNREACHABLE: "Try again; if it stays so, `sandkasten rm` the session and open a new one.",
  COMMAND_TIMEOUT: "Give it more time with --timeout.",
  STORAGE_FULL: "Free space: `sandkasten image gc`, `sandkasten workspace rm`, `sandkasten rm`.",
  UNSUPPORTED: "`sandkasten doctor` says what this machine can do and how to get the rest.",
} as const;
