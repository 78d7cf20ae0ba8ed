/** Commands as the API answers them. */
import { SandboxError } from "@sandkasten/protocol";
import type { ExecInfoBody, ExecResultBody } from "@sandkasten/protocol";
import type { ExecRow } from "../../ports/session-store.ts";
import type { CollectedOutput } from "../../sessions/services.ts";
import { isoTime } from "./session-body.ts";

/** `shellCwd` is where the session's shell is, for commands that do not say. */
export function execInfoBody(row: ExecRow, shellCwd: string): ExecInfoBody {
  const { endReason, command } = row;
  return {
    exec_id: row.id,
    session_id: row.sessionId,
    status: row.status,
    cmd: typeof command === "string" ? command : [...command],
    exit_code: row.exitCode ?? null,
    end_reason: endReason ?? null,
    timed_out: isTimeout(row),
    ...(row.signal !== undefined && { signal: row.signal }),
    cwd: row.cwd ?? shellCwd,
    duration_ms: Math.round(row.durationMs ?? Math.max(0, Date.now() - row.startedAtMs)),
    output_bytes: row.stdoutBytes + row.stderrBytes,
    stdout_bytes: row.stdoutBytes,
    stderr_bytes: row.stderrBytes,
    dropped_bytes: row.droppedBytes,
    shell_restarted: row.shellRestarted,
    started_at: isoTime(row.startedAtMs),
    ...(row.endedAtMs !== undefined && { ended_at: isoTime(row.endedAtMs) }),
  };
}

export function execResultBody(
  info: ExecInfoBody,
  collected: CollectedOutput,
  raw: boolean,
): ExecResultBody {
  const output = asBuffer(collected.output);
  return {
    ...info,
    output: output.toString(),
    stdout: asBuffer(collected.stdout).toString(),
    stderr: asBuffer(collected.stderr).toString(),
    truncated: collected.truncated,
    ...(raw && { output_base64: output.toString("base64") }),
  };
}

/** The error that the end of a command is, if it is one. An exit code is a result, whatever it is. */
export function endError(
  row: ExecRow,
  details: Readonly<Record<string, unknown>>,
): SandboxError | undefined {
  if (row.status !== "done") return undefined;
  if (isTimeout(row)) {
    const what = row.endReason === "timeout" ? "ran" : "was silent for";
    return new SandboxError(
      "COMMAND_TIMEOUT",
      `the command ${what} longer than allowed and was ended; what it printed until then is kept`,
      { details },
    );
  }
  if (row.endReason !== "unknown" && row.endReason !== "sandbox_gone") return undefined;
  return new SandboxError(
    "SANDBOX_UNREACHABLE",
    "the sandbox was lost while the command ran: it may have run, in part or in whole; look before you run it again",
    { details },
  );
}

function isTimeout({ endReason }: ExecRow): boolean {
  return endReason === "timeout" || endReason === "idle_timeout";
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
