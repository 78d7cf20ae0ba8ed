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

/** @param command - What was run, as in `sandkasten workspace create`. */
export function describeFailure(error: unknown, command = "sandkasten"): FailureReport {
  if (error instanceof CliFailure) {
    const { code, message, hint, exitCode } = error;
    return { code, message, hint, exitCode };
  }
  if (error instanceof CommanderError)
    return {
      code: "USAGE",
      message: error.message.replace(/^error: /, ""),
      hint: `\`${command} --help\` shows the usage.`,
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
    ...(code === "PERMISSION_DENIED" && isFromSandbox(error) && { hint: WRITABLE_PLACES }),
    ...(typeof requestId === "string" && { requestId }),
  };
}

const WRITABLE_PLACES =
  "Code in a sandbox can write to /workspace, /tmp and the home directory; with the profile `root` it can also change the image.";

/** Whether an operation inside the sandbox was refused, rather than the request. */
function isFromSandbox(error: Error): boolean {
  const { details } = error as Error & { readonly details?: Readonly<Record<string, unknown>> };
  return details?.["operation"] !== undefined;
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
    "Start a daemon with `sandkasten start`, or name one with --url or SANDKASTEN_URL.",
  UNAUTHORIZED:
    "Pass the daemon's key with SANDKASTEN_API_KEY or --api-key. A local daemon keeps it in the file api-key in its data directory.",
  SESSION_NOT_FOUND: "List sessions with `sandkasten ls`; `--all` includes those that have ended.",
  SESSION_EXPIRED:
    "Create a new session with `sandkasten create`; `sandkasten logs` still shows the output of this one.",
  EXEC_NOT_FOUND: "List the commands of a session with `sandkasten ps SESSION`.",
  INVALID_IMAGE: "List images with `sandkasten image ls`, or get one with `sandkasten image pull`.",
  INVALID_REQUEST: "Correct the value; the command's `--help` says which values it accepts.",
  FILE_NOT_FOUND: "Check the path; relative paths start at /workspace.",
  NOT_A_FILE: "Name a regular file.",
  NOT_A_DIRECTORY: "Name a directory.",
  FILE_EXISTS: "Choose another name, or remove the existing file first.",
  FORBIDDEN:
    "Use a key that has this scope, with --api-key or SANDKASTEN_API_KEY. An administrator creates one with `sandkasten key create`.",
  KEY_NOT_FOUND: "List keys and their ids with `sandkasten key list`.",
  PERMISSION_DENIED:
    "Leave out what is not allowed, or ask the administrator of the daemon to allow it.",
  CONFLICT:
    "`sandkasten ls --all` shows the state of each session, `sandkasten workspace ls` shows which workspaces are in use.",
  NO_SHELL: "Run the program itself: add --argv, or write it with its arguments after `--`.",
  PAYLOAD_TOO_LARGE: "Send less at once.",
  QUOTA_EXCEEDED:
    "Delete what you do not need with `sandkasten rm`, `sandkasten workspace rm` or `sandkasten image rm`, or try again later.",
  SANDBOX_UNREACHABLE:
    "Try again. If the problem persists, destroy the session with `sandkasten rm` and create a new one.",
  COMMAND_TIMEOUT: "Allow more time with --timeout.",
  STORAGE_FULL:
    "Free space with `sandkasten image gc`, `sandkasten workspace rm` or `sandkasten rm`.",
  ROUTE_NOT_FOUND:
    "Check that --url is the address of the daemon itself; `sandkasten version` shows both versions.",
  SANDBOX_NOT_FOUND: "The sandbox is gone; create a new session with `sandkasten create`.",
  SHELL_NOT_FOUND:
    "List the shells with `sandkasten shells SESSION`; `exec --in-shell` creates one.",
  FILE_CHANGED: "Read the file again and repeat the change.",
  CANCELLED: "Run the command again if it should not have been cancelled.",
  SANDBOX_IO_ERROR: "Check the disk in the sandbox with `df -h` and `ls -l`.",
  PORT_REFUSED: "Start the program that listens on the port, on 127.0.0.1 or 0.0.0.0.",
  PORT_FAILED: "Look at the log of the program that listens on the port.",
  PREVIEW_DENIED: "Create a new link with `sandkasten ports SESSION --preview PORT`.",
  ENGINE_UNREACHABLE: "Check that the Docker engine runs, for example with `sandkasten doctor`.",
  BACKEND_BUSY: "Try again in a moment.",
  DATABASE_UNREACHABLE:
    "Check that Postgres runs, and that `database_url` in the daemon's configuration names it.",
  REGISTRY_UNREACHABLE:
    "Try again later; an administrator can find the reason in the daemon's log.",
  UNSUPPORTED: "`sandkasten doctor` shows what this machine supports and how to enable the rest.",
} as const;
