/** Commands and their output in the SDK. */
import type { ExecInfoBody, ExecRequestBody, ExecResultBody } from "@sandkasten/protocol";
import { decodeBase64, encodeBase64 } from "./base64.ts";
import { camelKeys } from "./camel-keys.ts";
import { type WithSnakeNames, withSnakeNames } from "./snake-names.ts";
import type { EndReason, ExecStatus, OutputStream } from "./wire-names.ts";

/** Text runs in the session's stateful shell; a list of arguments runs as a separate process. */
export type Command = string | readonly string[];

/** Size of a terminal in characters. */
export interface TerminalSize {
  readonly rows: number;
  readonly cols: number;
}

/** A command's interpreter, as named in traces and metrics. */
export type CommandRuntime = "python" | "node" | "typescript" | "bash" | "other";

interface ExecOptionFields {
  /**
   * Kills the command after this time. 0 or absent means the longest that the daemon allows; longer
   * values are lowered to it, see `timeoutClamped` of the result.
   */
  readonly timeoutMs?: number | undefined;
  /** Kills the command if it prints nothing for this long. */
  readonly idleTimeoutMs?: number | undefined;
  /**
   * The working directory. By default, text runs in the shell's directory, a list of arguments in
   * /workspace.
   */
  readonly cwd?: string | undefined;
  /** Variables for this command only. Undefined values are omitted. */
  readonly env?: Variables | undefined;
  /** `uid` or `uid:gid`. */
  readonly user?: string | undefined;
  /** The complete stdin. Without it, stdin is at its end. */
  readonly stdin?: string | Uint8Array | undefined;
  /**
   * Name of the shell that runs the command; created on first use. `default` by default. Commands
   * of one shell run one after the other, those of different shells concurrently.
   */
  readonly shell?: string | undefined;
  /** false runs the text in a new shell instead of the stateful one. */
  readonly stateful?: boolean | undefined;
  /** Uses one pipe for stdout and stderr: their order is exact, and everything counts as stdout. */
  readonly merge?: boolean | undefined;
  /** How much output the result contains: its beginning and its end. */
  readonly outputBudgetBytes?: number | undefined;
  /** Adds `rawOutput` to the result: the exact bytes of the output. */
  readonly raw?: boolean | undefined;
  /** Returns after this time at the latest, while the command continues; check `status`. */
  readonly waitMs?: number | undefined;
  /** Returns as soon as the output matches; check `matched`. */
  readonly until?: OutputCondition | undefined;
  /** Two calls with the same key run one command. The SDK generates a key for each call. */
  readonly idempotencyKey?: string | undefined;
  /** Aborts the call. `onAbort` says what happens to the command. */
  readonly signal?: AbortSignal | undefined;
  /** What happens to the command when `signal` aborts: `detach` (the default) lets it continue, `cancel` ends it. */
  readonly onAbort?: "detach" | "cancel" | undefined;
  /** What happens to the command when the connection breaks. `continue` by default. */
  readonly onDisconnect?: "continue" | "cancel" | undefined;
  /** Runs it on a terminal of this size. A named shell keeps the terminal for later commands. */
  readonly pty?: TerminalSize | undefined;
  /** The command's interpreter, for traces and metrics. Guessed from the command by default. */
  readonly runtime?: CommandRuntime | undefined;
}

/** What to wait for in the output of a command, including its background processes. */
export interface OutputCondition {
  /** A regular expression in the syntax of RE2, searched for in each line. */
  readonly pattern: string;
  /** Only in this stream. */
  readonly stream?: OutputStream | undefined;
}

/** Where the output matched. */
export interface OutputMatch {
  readonly stream: OutputStream;
  readonly text: string;
  readonly groups: readonly (string | null)[];
  readonly line: string;
}

/** Environment variables by name. */
export type Variables = Readonly<Record<string, string | undefined>>;

/** Options for running a command. */
export type ExecOptions = WithSnakeNames<ExecOptionFields>;

interface StartOptionFields extends ExecOptionFields {
  /** Keeps stdin open for `writeStdin`. */
  readonly stdinOpen?: boolean | undefined;
}

/** Options for starting a command without waiting for it. */
export type StartOptions = WithSnakeNames<StartOptionFields>;

interface ExecInfoFields {
  readonly execId: string;
  readonly sessionId: string;
  readonly status: ExecStatus;
  /** The shell that runs the command; absent for processes. */
  readonly shell?: string | undefined;
  /** The requested command, truncated to 4 KiB. */
  readonly cmd: string | readonly string[];
  /** null while the command runs, or if it is unknown. */
  readonly exitCode: number | null;
  /** null while it runs. */
  readonly endReason: EndReason | null;
  /** It exceeded its timeout or idle timeout. */
  readonly timedOut: boolean;
  /** The signal that ended it. */
  readonly signal?: number | undefined;
  /** The shell's working directory after the command. */
  readonly cwd: string;
  readonly durationMs: number;
  readonly outputBytes: number;
  readonly stdoutBytes: number;
  readonly stderrBytes: number;
  /** Bytes of output that are no longer available. */
  readonly droppedBytes: number;
  /** It ran in a new shell, because the previous one had ended: that shell's state is lost. */
  readonly shellRestarted: boolean;
  /** It has ended, but processes that it left in the background hold its output and can print more. */
  readonly background: boolean;
  /** Bytes that they printed after the command ended. Not included in the other counts. */
  readonly backgroundBytes: number;
  /** The timeout in effect. null for a terminal without a timeout. */
  readonly timeoutMs: number | null;
  /** The requested timeout was longer than the daemon allows. */
  readonly timeoutClamped: boolean;
  /** ISO 8601, like all times here. */
  readonly startedAt: string;
  readonly endedAt?: string | undefined;
}

/** A command without its output. */
export type ExecInfo = WithSnakeNames<ExecInfoFields>;

interface ExecResultFields extends ExecInfoFields {
  /** stdout and stderr in order of arrival. Invalid UTF-8 is replaced. */
  readonly output: string;
  readonly stdout: string;
  readonly stderr: string;
  /** The middle of the output is omitted here; `exec.read` has all of it. */
  readonly truncated: boolean;
  /** Where the output of this response ends: the cursor to continue reading from. */
  readonly nextCursor: number;
  /** Whether the output matched `until`. */
  readonly matched?: boolean | undefined;
  readonly match?: OutputMatch | undefined;
  /** The exact bytes of the output, if `raw` was set. */
  readonly rawOutput?: Uint8Array | undefined;
}

/** A command with its output. */
export type ExecResult = WithSnakeNames<ExecResultFields>;

interface OutputChunkFields {
  readonly stream: OutputStream;
  /** Invalid UTF-8 is replaced. Characters are never split. */
  readonly text: string;
  /** The exact bytes. */
  readonly bytes: Uint8Array;
  /** The chunk's number within the command. */
  readonly seq: number;
  /** Milliseconds since 1970. */
  readonly timestamp: number;
  /** Its byte offset in the command's output. */
  readonly offset: number;
  /** Bytes before it that are no longer available; usually 0. */
  readonly skippedBytes: number;
}

/** A piece of output. */
export type OutputChunk = WithSnakeNames<OutputChunkFields>;

interface OutputPageFields {
  readonly execId: string;
  readonly cursor: number;
  /** The cursor to continue from. */
  readonly nextCursor: number;
  readonly chunks: readonly OutputChunk[];
  /** Bytes between the cursor and the first chunk that are lost. */
  readonly skippedBytes: number;
  /** The command has ended, and this is the end of its own output. */
  readonly done: boolean;
  /** No more output can come: all processes that held the output have ended, too. */
  readonly closed: boolean;
  /** The command as it was before the page was read. */
  readonly exec: ExecInfo;
}

/** A part of a command's output. */
export type OutputPage = WithSnakeNames<OutputPageFields>;

/** Converts a command to a request. */
export function toExecRequest(cmd: Command, options: StartOptions): ExecRequestBody {
  const { stdin } = options;
  return {
    cmd: typeof cmd === "string" ? cmd : [...cmd],
    timeout_ms: options.timeoutMs,
    idle_timeout_ms: options.idleTimeoutMs,
    cwd: options.cwd,
    env: toVariables(options.env),
    user: options.user,
    stdin: typeof stdin === "string" ? stdin : undefined,
    stdin_base64: stdin instanceof Uint8Array ? encodeBase64(stdin) : undefined,
    stdin_open: options.stdinOpen,
    shell: options.shell,
    stateful: options.stateful,
    wait_ms: options.waitMs,
    until: options.until,
    on_disconnect: options.onDisconnect,
    merge: options.merge,
    output_budget_bytes: options.outputBudgetBytes,
    raw_output: options.raw,
    pty: options.pty,
    runtime: options.runtime,
  };
}

/** Removes undefined values. */
export function toVariables(variables: Variables | undefined): Record<string, string> | undefined {
  if (variables === undefined) return undefined;
  const given = Object.entries(variables).filter((entry): entry is [string, string] => {
    return entry[1] !== undefined;
  });
  return Object.fromEntries(given);
}

export function toExecInfo(body: ExecInfoBody): ExecInfo {
  return withSnakeNames(camelKeys(body));
}

export function toExecResult(body: ExecResultBody): ExecResult {
  const { output_base64: raw, ...rest } = body;
  return withSnakeNames({
    ...camelKeys(rest),
    ...(raw === undefined ? {} : { rawOutput: decodeBase64(raw) }),
  });
}
