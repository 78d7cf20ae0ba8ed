/** Converts commands to the API's format. */
import { SandboxError } from "@sandkasten/protocol";
import type { ExecInfoBody, ExecResultBody } from "@sandkasten/protocol";
import type { ExecRow } from "../../../ports/session-store.ts";
import type { CollectedOutput, PatternMatch } from "../../../sessions/services/exec-service.ts";
import { isoTime } from "./session-body.ts";

/** `shellCwd` is the directory of the session's shell, for commands that have none. */
export function execInfoBody(row: ExecRow, shellCwd: string): ExecInfoBody {
  const { endReason, command } = row;
  return {
    exec_id: row.id,
    session_id: row.sessionId,
    status: row.status,
    ...(row.shell !== undefined && { shell: row.shell }),
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
    background: row.background,
    background_bytes: row.backgroundBytes,
    timeout_ms: row.timeoutMs ?? null,
    timeout_clamped: row.timeoutClamped,
    started_at: isoTime(row.startedAtMs),
    ...(row.endedAtMs !== undefined && { ended_at: isoTime(row.endedAtMs) }),
  };
}

export async function execResultBody(
  info: ExecInfoBody,
  collected: CollectedOutput,
  raw: boolean,
): Promise<ExecResultBody> {
  const output = await textOf(collected.output);
  // Most commands print to one stream only.
  const textOfStream = async (bytes: Uint8Array): Promise<string> =>
    bytes === collected.output ? output : await textOf(bytes);
  return {
    ...info,
    output,
    stdout: await textOfStream(collected.stdout),
    stderr: await textOfStream(collected.stderr),
    truncated: collected.truncated,
    next_cursor: collected.endOffset,
    ...(raw && { output_base64: asBuffer(collected.output).toString("base64") }),
  };
}

/** Replacing invalid UTF-8 is slow, so large output is decoded in pieces. */
const PIECE_BYTES = 1_048_576;

async function textOf(bytes: Uint8Array): Promise<string> {
  if (bytes.byteLength <= PIECE_BYTES) return asBuffer(bytes).toString();
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  let text = "";
  for (let at = 0; at < bytes.byteLength; at += PIECE_BYTES) {
    text += decoder.decode(bytes.subarray(at, at + PIECE_BYTES), { stream: true });
    await new Promise(setImmediate);
  }
  return text + decoder.decode();
}

/** The result of waiting for a match; undefined if none was requested. */
export function matchBody(
  matched: { readonly match: PatternMatch | undefined } | undefined,
): Pick<ExecResultBody, "matched" | "match"> {
  if (matched === undefined) return {};
  const { match } = matched;
  if (match === undefined) return { matched: false };
  return { matched: true, match: { ...match, groups: [...match.groups] } };
}

/** The error for a command's end, if it is one. An exit code is always a result. */
export function endError(
  row: ExecRow,
  details: Readonly<Record<string, unknown>>,
): SandboxError | undefined {
  if (row.status !== "done") return undefined;
  if (isTimeout(row)) {
    const what = row.endReason === "timeout" ? "ran" : "was silent for";
    return new SandboxError(
      "COMMAND_TIMEOUT",
      `the command ${what} longer than allowed and was killed; its output until then is kept`,
      { details },
    );
  }
  if (row.endReason === "not_started")
    return new SandboxError(
      "SANDBOX_UNREACHABLE",
      "the command was not started; run it again, with the same idempotency key if it had one",
      { details },
    );
  if (row.endReason !== "unknown" && row.endReason !== "sandbox_gone") return undefined;
  return new SandboxError(
    "SANDBOX_UNREACHABLE",
    "the sandbox was lost while the command ran: it may have run partly or completely; check before you run it again",
    { details },
  );
}

function isTimeout({ endReason }: ExecRow): boolean {
  return endReason === "timeout" || endReason === "idle_timeout";
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
