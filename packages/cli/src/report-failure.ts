/** Reports what went wrong in one line and what to do about it in the next. */
import { CommanderError } from "commander";
import { CliFailure } from "./failure.ts";
import { localFailureIn } from "./local-failure.ts";
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
  // Several configuration problems are several lines.
  const message = report.message.split("\n").map(plainText).join("\n  ");
  await sink.line(`${style.red("✗")} ${message}`);
  if (report.hint === "") return;
  await sink.line(`${style.dim("→")} ${plainText(report.hint)}`);
}

export const CONFIG_HINT =
  "Correct the named file, variable or flag; `sandkasten config` shows every key and where its value comes from.";

/** Gives failures with these codes a hint that fits the current operation. */
export async function hinting<T>(
  hints: Readonly<Partial<Record<string, string>>>,
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    const { code, message, exitCode } = describeFailure(cause);
    const hint = hints[code];
    throw hint === undefined ? cause : new CliFailure(message, { hint, code, exitCode, cause });
  }
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
      hint: USAGE_HINT,
      exitCode: 2,
    };
  // An unreadable file aborts the request that should have sent it.
  const coded = codedError(error);
  const local =
    coded === undefined || coded.code === "CONNECTION_FAILED" ? localFailureIn(error) : undefined;
  if (local !== undefined) return describeFailure(local);
  if (coded !== undefined) {
    const { code, message, requestId } = coded;
    const known = Object.hasOwn(HINTS, code);
    const hint =
      coded.hint ?? (known ? HINTS[code as keyof typeof HINTS] : fallbackHint(requestId));
    return { code, message, hint, ...(requestId !== undefined && { requestId }), exitCode: 1 };
  }
  return {
    code: "CLI_FAILED",
    message: error instanceof Error ? error.message : String(error),
    hint: "`sandkasten doctor` checks the machine and the daemon.",
    exitCode: 1,
  };
}

const USAGE_HINT = "`sandkasten --help` and `sandkasten COMMAND --help` show its usage.";

interface CodedError {
  readonly code: string;
  readonly message: string;
  readonly hint?: string;
  readonly requestId?: string;
}

/** Errors of the client and of the daemon are two classes with the same shape. */
function codedError(error: unknown): CodedError | undefined {
  if (!(error instanceof Error) || error.name !== "SandboxError") return undefined;
  const { code, requestId } = error as Error & { code?: unknown; requestId?: unknown };
  if (typeof code !== "string") return undefined;
  return {
    code,
    message: error.message,
    ...(code === "CONNECTION_FAILED" && connectionFailure(error)),
    ...(typeof requestId === "string" && { requestId }),
  };
}

const CHECK_ADDRESS = "Check the address in --url or SANDKASTEN_URL.";

/** Why a connection failed, if known. */
function connectionFailure(
  error: Error,
): { readonly message: string; readonly hint?: string } | undefined {
  for (let cause: unknown = error.cause; cause instanceof Error; cause = cause.cause) {
    const { code, address, port, hostname } = cause as NodeJS.ErrnoException & {
      readonly address?: string;
      readonly port?: number;
      readonly hostname?: string;
    };
    // A missing daemon is by far the most common failure.
    if (code === "ECONNREFUSED" && address !== undefined)
      return { message: `No daemon answers at ${address}:${port ?? ""}.` };
    if (code === "ENOTFOUND" || code === "EAI_AGAIN")
      return { message: `The name ${hostname ?? ""} cannot be resolved.`, hint: CHECK_ADDRESS };
    if (cause.message === "bad port")
      return { message: "The port of the daemon's address cannot be used.", hint: CHECK_ADDRESS };
    if (code !== undefined && /^ERR_(?:SSL|TLS)|CERT|SELF_SIGNED/.test(code))
      return {
        message: `The TLS connection to the daemon failed (${code}).`,
        hint: `${CHECK_ADDRESS} The daemon itself speaks http://; https:// needs a proxy with a trusted certificate.`,
      };
    if (code === "ECONNRESET" || code === "EPIPE" || code === "UND_ERR_SOCKET")
      return {
        message: "The connection to the daemon closed before the response was complete.",
        hint: "Try again; `sandkasten doctor` shows whether the daemon is running.",
      };
  }
  return undefined;
}

function fallbackHint(requestId: string | undefined): string {
  return requestId === undefined
    ? "`sandkasten doctor` checks the machine and the daemon."
    : `The daemon's log has the cause under the request id ${requestId}.`;
}

/**
 * What to do about each code, unless the command has a better hint. INTERNAL_ERROR points to the
 * log by its request id.
 */
export const HINTS = {
  CONNECTION_FAILED:
    "Start a daemon with `sandkasten daemon`, or name one with --url or SANDKASTEN_URL.",
  UNAUTHORIZED:
    "Pass the daemon's key with SANDKASTEN_API_KEY or --api-key. A local daemon stores it in the file api-key of its data directory.",
  SESSION_NOT_FOUND: "`sandkasten ls` lists the sessions, with --all including ended ones.",
  SESSION_EXPIRED:
    "Open a new one with `sandkasten create`; `sandkasten logs` still shows its output.",
  EXEC_NOT_FOUND: "`sandkasten ps SESSION` shows the commands of a session.",
  INVALID_IMAGE:
    "`sandkasten image ls` lists local images, `sandkasten image pull` downloads more.",
  INVALID_REQUEST: "Correct the value; `--help` after the command lists what it accepts.",
  FILE_NOT_FOUND: "Check the path; relative ones start at /workspace.",
  NOT_A_FILE: "Name a regular file.",
  NOT_A_DIRECTORY: "Name a directory.",
  FILE_EXISTS: "Choose another name, or remove the existing one first.",
  FORBIDDEN:
    "Use a key with another scope: give it with --api-key or SANDKASTEN_API_KEY. An administrator creates one with `sandkasten key create`.",
  KEY_NOT_FOUND: "`sandkasten key list` shows the keys with their ids.",
  PERMISSION_DENIED:
    "In a sandbox, write to /workspace, /tmp or the home directory. If the daemon itself refuses, its administrator can allow it.",
  CONFLICT:
    "`sandkasten ls --all` shows the state of each session, `sandkasten workspace ls` which workspaces are in use.",
  NO_SHELL: "Run the program itself: add --argv, or give it with its arguments after `--`.",
  PAYLOAD_TOO_LARGE: "Send less at once.",
  QUOTA_EXCEEDED:
    "Delete what you do not need with `sandkasten rm`, `sandkasten workspace rm` or `sandkasten image rm`, or try again later.",
  SANDBOX_UNREACHABLE:
    "Try again; if it keeps failing, `sandkasten rm` the session and create a new one.",
  COMMAND_TIMEOUT: "Increase the timeout with --timeout.",
  STORAGE_FULL: "Free space: `sandkasten image gc`, `sandkasten workspace rm`, `sandkasten rm`.",
  ROUTE_NOT_FOUND:
    "Check that --url is the address of the daemon itself; `sandkasten version` shows both versions.",
  SANDBOX_NOT_FOUND: "Its sandbox is gone; open a new session with `sandkasten create`.",
  SHELL_NOT_FOUND:
    "List the shells with `sandkasten shells SESSION`; `exec --in-shell` creates one.",
  FILE_CHANGED: "Read the file again and repeat the change.",
  CANCELLED: "Run the command again if it was not meant to end.",
  SANDBOX_IO_ERROR: "Check the disk in the sandbox with `df -h` and `ls -l`.",
  PORT_REFUSED: "Start the program that listens on the port, on 127.0.0.1 or 0.0.0.0.",
  PORT_FAILED: "Check the log of the program that listens on the port.",
  PREVIEW_DENIED: "Create a new link with `sandkasten ports SESSION --preview PORT`.",
  ENGINE_UNREACHABLE: "Check that the Docker engine is running; `sandkasten doctor` shows more.",
  BACKEND_BUSY: "Try again in a moment.",
  REGISTRY_UNREACHABLE: "Try again later; the administrator finds the reason in the daemon's log.",
  UNSUPPORTED: "`sandkasten doctor` shows what this machine supports and how to get the rest.",
} as const;
